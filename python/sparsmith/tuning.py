"""Tuning: the ``sparsmith`` command, run for models of PyTorch."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping

import torch
from torch import nn

from sparsmith import _library, parallel, patterns
from sparsmith._library import SparsmithError
from sparsmith.layers import dense_of, linear_layers, parameter_of, trains
from sparsmith.tuned_file import TunedFile, load, missing_kernels, warn_dense

_NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


_COMMAND_TYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}

_NO_DEVICE = 4  # the command's exit code where there is no GPU, or no NVRTC for it

# Compute capabilities of the typical devices that the command predicts for: A100, H100 or H200, B200.
_PREDICTED = (80, 90, 100)


class CompilerMissing(SparsmithError):
    """There is no NVRTC, which compiles kernels."""


def _scratch() -> str:
    """A folder for files that live as long as this process."""
    global _folder
    if _folder is None:
        _folder = tempfile.mkdtemp(prefix="sparsmith-")
        atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    return _folder


_folder: str | None = None


def _bits(mask: torch.Tensor) -> torch.Tensor:
    """A mask [rows, cols] as bytes [rows, ceil(cols / 8)], the first column in the lowest bit."""
    mask = nn.functional.pad(mask.to(torch.uint8), (0, -mask.shape[1] % 8)).view(mask.shape[0], -1, 8)
    places = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=mask.device)
    return (mask * places).sum(-1, dtype=torch.uint8)


def write_weights(path: str | os.PathLike, weights: Mapping[str, torch.Tensor]) -> None:
    """Writes weights [rows, cols] by module name as bits and nonzeros, the sparse-bitmask format of compressed-tensors,
    in a safetensors file. Holds one weight at a time."""
    header, offset = {}, 0

    def add(name: str, dtype: str, shape: list[int], bytes_: int) -> None:
        nonlocal offset
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + bytes_]}
        offset += bytes_

    for name, weight in weights.items():
        rows, cols = weight.shape
        nonzeros = int(torch.count_nonzero(weight))
        add(name + ".shape", "I64", [2], 16)
        add(name + ".row_offsets", "I64", [rows], 8 * rows)
        add(name + ".compressed", _NAMES[weight.dtype], [nonzeros], nonzeros * weight.element_size())
        add(name + ".bitmask", "U8", [rows, (cols + 7) // 8], rows * ((cols + 7) // 8))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for weight in weights.values():
            mask = weight != 0
            counts = mask.sum(1)
            for tensor in (torch.tensor(weight.shape), counts.cumsum(0) - counts, weight[mask], _bits(mask)):
                host = tensor.cpu().contiguous()  # alive while its memory is written; PyTorch may be there without NumPy
                file.write((ctypes.c_char * host.nbytes).from_address(host.data_ptr()))


def run_command(arguments: list[str], progress: bool, **options) -> dict:
    """Runs the command; the JSON that it prints. ``options``: of ``subprocess.run``."""
    command = [_library.program(), *arguments, "--json"]
    errors = None if progress else subprocess.PIPE
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=errors, text=True, **options)
    if done.returncode == _NO_DEVICE and not _there("NVRTC"):
        raise CompilerMissing("NVRTC, which compiles kernels, is missing: pip install nvidia-cuda-nvrtc")
    if done.returncode != 0:
        reason = _reason(done.stdout) or (done.stderr or "").strip()
        raise SparsmithError(f"sparsmith {arguments[0]} failed ({done.returncode}){': ' + reason if reason else ''}")
    return json.loads(done.stdout)


def _there(what: str) -> bool:
    """Whether ``sparsmith doctor`` finds a part of the machine."""
    done = subprocess.run([_library.program(), "doctor", "--json"], check=False, capture_output=True, text=True)
    return all(finding["there"] for finding in json.loads(done.stdout)["findings"] if finding["what"] == what)


def _reason(text: str) -> str:
    try:
        report = json.loads(text)
    except json.JSONDecodeError:
        return ""
    if not (report.get("weights") or report.get("units")):
        return "no weight has enough zeros; is the model pruned?"
    return report["memory"]["unmet"] or "interrupted"


def tune(model: nn.Module | str | os.PathLike, output: str | os.PathLike, *, tokens: Iterable[int] = (1, 8, 32),
         memory: str | None = None, include: Iterable[str] = (), exclude: Iterable[str] = (),
         groups: Iterable[str] = (), device: str | None = None, budget: str | None = None,
         min_sparsity: float | None = None, training: bool = False, moving_block: int = 0, dtype: torch.dtype | None = None,
         tensor_parallel: int | None = None, splits: Iterable[str] | None = None,
         layers: Mapping[str, nn.Module] | None = None, arguments: Iterable[str] = (), progress: bool = True,
         cluster: str | Mapping | None = None) -> dict:
    """Finds the fastest kernels for the weights of a model, and writes a tuned file. Runs ``sparsmith tune``.

    ``model``: a module, or a file or Hugging Face folder. ``tokens``: numbers of tokens per call to tune for, ascending.
    ``memory``: "1x" (the default: each weight takes at most its dense bytes), "1.5x", or "3GB" for all weights; "0.5x":
    half of the dense bytes, and then an N may be slower than dense.
    ``include``, ``exclude``: shell patterns of weight names. ``groups``: weights with one input, as the option
    ``--group``. ``device``: "cuda:0"; "emulator" for predictions that are verified on the CPU; "none" for predictions
    that are not verified; default: the first of these that works. ``budget``: a limit of the time, such as "10m".
    ``min_sparsity``: skip weights with a smaller share of zeros. ``training``: for the three products of a training step: the
    layer's, the gradient of x and the gradient of the weight; without ``memory``, training takes no more memory than that of
    dense weights with masks. ``moving_block``: unless 0, with ``training``, with kernels for patterns that change
    (:meth:`TrainableSparseLinear.update_pattern`), in blocks of this side: a block with a nonzero is in the pattern as a whole.
    ``dtype``: of the kernels; default: that of each weight. ``layers``: the layers of the module to tune, by name;
    default: all linear ones. ``arguments``: further arguments of the command. ``cluster``: on the GPUs of a Ray cluster,
    "auto" or its address, or the options of :func:`sparsmith.cluster.tune` by name.

    ``tensor_parallel``: cuts weights for so many GPUs that run the model together, and writes a file for each: of the output
    ``model.tuned.safetensors``, ``model.rank0.tuned.safetensors`` and so on (:func:`patch_model`). ``splits``: the weights, as
    the option ``--split``; default: those that the configuration of a transformers model names (``base_model_tp_plan``).

    Returns what the command reports (``docs/reference/json.md``). Choices come from the cache where it has them.
    Raises SparsmithError if the command fails, with its reason.
    """
    command = ["--tokens", ",".join(str(number) for number in tokens)]
    if moving_block and not training:
        raise SparsmithError("patterns move in training: tune with training=True")
    if moving_block:
        command += ["--families", "bsr_wgmma,sampled_wgmma"]
    if training:
        command += ["--train"] if memory is None else ["--operator", "spmm,spmm_transposed,sddmm"]
    if dtype is not None and dtype not in _COMMAND_TYPES:
        raise SparsmithError(f"kernels compute in float32, float16 or bfloat16, not {dtype}")
    for option, value in [("--memory", memory), ("--min-sparsity", min_sparsity), ("--dtype", _COMMAND_TYPES.get(dtype))]:
        if value is not None:
            command += [option, str(value)]
    for option, values in [("--include", include), ("--exclude", exclude), ("--group", groups)]:
        for value in values:
            command += [option, value]
    command += arguments
    if splits is not None and tensor_parallel is None:
        raise SparsmithError("splits are for tensor_parallel=..., the number of ranks")

    def run(path: str, names: Iterable[str] = ()) -> dict:
        ranks = []
        if tensor_parallel is not None:
            found = splits if splits is not None else parallel.splits_of(model, list(names))
            ranks = ["--tensor-parallel", str(tensor_parallel), *(word for split in found for word in ("--split", split))]
        if cluster is not None:
            from sparsmith.cluster import tune as tune_on_cluster

            options = {"address": cluster} if isinstance(cluster, str) else cluster
            return tune_on_cluster(path, output, [*command, *ranks], device=device, budget=budget, progress=progress, **options)
        limits = [word for option, value in [("--device", device), ("--budget", budget)] if value for word in (option, value)]
        return run_command(["tune", path, "--output", os.fspath(output), *command, *ranks, *limits], progress)

    if not isinstance(model, nn.Module):
        return run(os.fspath(model))
    given = linear_layers(model) if layers is None else layers
    chosen = {name: layer for name, layer in given.items() if parameter_of(layer).dtype in _NAMES}
    if not chosen:
        others = sorted({str(parameter_of(layer).dtype) for layer in given.values()})
        raise SparsmithError("the model has no linear layer to tune"
                             + (f": sparsmith tunes float32, float16 and bfloat16, not {', '.join(others)}" if others else ""))
    with tempfile.TemporaryDirectory(prefix="sparsmith-") as folder:
        path = pathlib.Path(folder) / "weights.safetensors"
        write_weights(path, _DenseWeights(chosen, moving_block))
        return run(str(path), chosen)


def _with_pattern(layer: nn.Module, block: int) -> torch.Tensor:
    """The dense weight, with tiny numbers in place of the zeros of the pattern of a layer that trains, and of those in blocks
    of this side that hold a nonzero."""
    weight = dense_of(layer)
    tiny = torch.finfo(weight.dtype).tiny
    if trains(layer):
        values = layer.values.detach()
        weight.view(-1)[layer.positions().to(weight.device)] = values.where(values != 0, tiny)
    elif block > 1:
        held = (patterns.blocked(weight, block) != 0).any(3).any(2)
        held = held.repeat_interleave(block, 0).repeat_interleave(block, 1)
        weight = weight.masked_fill(held & (weight == 0), tiny)
    return weight


class _DenseWeights(Mapping):
    """The dense weights of layers by name, each made when it is asked for."""

    def __init__(self, layers: Mapping[str, nn.Module], block: int) -> None:
        self._layers, self._block = layers, block

    def __getitem__(self, name: str) -> torch.Tensor:
        try:
            return _with_pattern(self._layers[name], self._block)
        except ValueError as error:
            raise SparsmithError(f"{name}: {error}") from None

    def __iter__(self):
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)


def device_option(layers: Iterable[nn.Module]) -> str | None:
    """The GPU of layers, as the command names it."""
    gpus = sorted(device.index for device in {parameter_of(layer).device for layer in layers} if device.type == "cuda")
    return f"cuda:{gpus[0]}" if gpus else None


def tune_layer(layer: nn.Module, *, tokens: tuple[int, ...], search: bool, candidates: int = 4,
               arguments: Iterable[str] = (), training: bool = False, moving_block: int = 0,
               **options) -> tuple[TunedFile, str] | None:
    """Tunes one layer: the tuned file, which lives as long as the process, and the weight's name. ``search``: with a short
    search of ``candidates``; else as :meth:`sparsmith.SparseLinear.from_linear` predicts. None, after a warning: the GPU
    has no kernels, as NVRTC is missing."""
    device = parameter_of(layer).device
    present = device if device.type == "cuda" else "cuda" if torch.cuda.is_available() else None
    capability = 90
    if present is not None:
        major, minor = torch.cuda.get_device_capability(present)
        capability = 10 * major + minor
    if search or capability not in _PREDICTED:
        options.setdefault("device", device_option([layer]))
        arguments = ["--candidates", str(candidates), *arguments]
    else:
        options.setdefault("device", "none")
        arguments = ["--arch", f"sm_{capability}", *arguments]
    handle, output = tempfile.mkstemp(suffix=".tuned.safetensors", dir=_scratch())
    os.close(handle)
    os.unlink(output)
    try:
        tune(nn.ModuleDict({"layer": layer}), output, tokens=tokens, layers={"layer": layer}, progress=False,
             arguments=arguments, training=training, moving_block=moving_block, **options)
    except CompilerMissing as error:
        warn_dense(str(error))
        return None
    file = load(output, trusted=True, training=training or trains(layer), moving_block=moving_block)
    name = "layer.weight"
    return None if not file[name].dense and missing_kernels(file, device) else (file, name)
