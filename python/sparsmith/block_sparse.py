"""Block-sparse layers with the interface of pytorch_block_sparse (github.com/huggingface/pytorch_block_sparse)."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from sparsmith import prune
from sparsmith._library import SparsmithError
from sparsmith.layers import (
    dense_of,
    linear_layers,
    names_of,
    other_owners,
    parameter_of,
    replace_module,
    shape_of,
    trains,
)
from sparsmith.trainable_linear import TrainableSparseLinear, pattern_of
from sparsmith.tuning import tune_layer

_tuning = threading.Lock()


class BlockSparseLinear(nn.Module):
    """``nn.Linear`` whose weight consists of blocks, of which a share ``density`` is kept: ``y = x @ W.T + bias``.

    x: [..., in_features], y: [..., out_features]. Blocks are ``block_shape`` = (output features, input features), and
    must divide the weight. ``round((1 - density) * blocks)`` blocks are zero; one block is kept at least.

    ``torch_nn_linear``: an ``nn.Linear`` or transformers ``Conv1D`` to convert. It gives sizes, bias, type and device; the
    blocks of largest norm are kept with their values. They are not multiplied by 1 / sqrt(density), as
    pytorch_block_sparse does. Without it, the pattern is random, and values are those of a new ``nn.Linear``.

    The weight trains: ``layer`` is a :class:`TrainableSparseLinear`, whose parameter ``layer.values`` holds the elements of
    the blocks that are kept. The blocks stay, whatever values they get.

    The first forward on a device tunes the weight with a short search, which may take seconds; the first one that wants a
    gradient of the weight does so for the three products of a training step, with its number of tokens and, under
    ``torch.autocast``, in its type. Call :meth:`tune` to
    choose when and how, and before ``torch.compile`` or the capture of a graph, in which a layer that is not tuned runs
    dense. Where no sparse kernel is faster than the dense layer within its memory, without NVRTC on a GPU (with one warning),
    and for a weight without zeros, the layer stays a dense product with the masked weight. A move to another device, or
    another type, makes the layer dense until the next forward. :func:`sparsmith.optimize` makes the weight of ``layer``
    constant, which is the fastest for inference.

    ``state_dict`` holds ``weight`` (dense, zeros included) and ``bias``, as that of ``nn.Linear``, whether the layer was
    tuned or not. Loading keeps the blocks if the nonzeros of ``weight`` lie in them; otherwise the blocks are those of
    ``weight`` that are not zero. Copies keep their kernels, pickles need the tuned file for that, which is temporary.

    Raises ValueError for sizes that blocks do not divide, and for a density outside of (0, 1].

    Example:
        >>> import torch
        >>> from sparsmith import BlockSparseLinear
        >>> layer = BlockSparseLinear(128, 64, density=0.25)
        >>> layer.block_mask().sum().item(), layer.density
        (2, 0.25)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, density: float = 0.5,
                 torch_nn_linear: nn.Module | None = None, verbose: bool = False,
                 block_shape: tuple[int, int] = (32, 32)) -> None:
        super().__init__()
        if torch_nn_linear is None:
            weight, values = None, None
        else:
            weight, values = dense_of(torch_nn_linear).clone(), torch_nn_linear.bias
            (out_features, in_features), bias = weight.shape, values is not None
        rows, cols = _check(out_features, in_features, density, block_shape)
        zeros = min(rows * cols - 1, round((1 - density) * rows * cols))
        dense = nn.Linear(in_features, out_features, bias)
        if weight is None:
            mask = torch.ones(rows * cols)
            mask[torch.randperm(rows * cols)[:zeros]] = 0
            weight = dense.weight.detach() * mask.view(rows, cols).kron(torch.ones(block_shape))
        dense.weight = nn.Parameter(weight, requires_grad=False)
        if torch_nn_linear is not None:
            prune.magnitude_(dense, zeros / (rows * cols), pattern=tuple(block_shape), filter_fn=lambda *_: True)
        elif bias:
            values = dense.bias
        self.in_features, self.out_features = in_features, out_features
        self.block_shape, self.verbose = tuple(block_shape), verbose
        # A constant SparseLinear after optimize().
        weight = dense.weight.detach()
        self.layer: nn.Module = TrainableSparseLinear(weight, values, self._blocks_of(weight))
        if torch_nn_linear is not None:
            self.layer.values.requires_grad_(parameter_of(torch_nn_linear).requires_grad)
        self._decided = ""  # what the layer was tuned for, even if it stays dense: "inference" or "training"
        self.register_state_dict_post_hook(_dense_state)

    @property
    def weight(self) -> torch.Tensor:
        """As of ``layer``; the values are those of :meth:`to_dense`."""
        return self.layer.weight

    @property
    def bias(self) -> torch.Tensor | None:
        return self.layer.bias

    @property
    def density(self) -> float:
        """The share of blocks that are kept."""
        return self.block_mask().float().mean().item()

    def to_dense(self) -> torch.Tensor:
        """The weight with its zeros, [out_features, in_features]."""
        return self.layer.to_dense() if hasattr(self.layer, "to_dense") else dense_of(self.layer)

    def block_mask(self) -> torch.Tensor:
        """The blocks that are kept: bool, [out_features / block rows, in_features / block columns]."""
        if not trains(self.layer):
            return self._blocks(self.to_dense() != 0)
        mask = torch.zeros(self.out_features * self.in_features, dtype=torch.bool)
        mask[self.layer.positions()] = True
        return self._blocks(mask).to(self.layer.values.device)

    def _blocks(self, mask: torch.Tensor) -> torch.Tensor:
        rows, cols = self.block_shape
        return mask.view(self.out_features // rows, rows, self.in_features // cols, cols).any(dim=3).any(dim=1)

    def _blocks_of(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The pattern of the blocks of a weight that are not zero."""
        rows, cols = self.block_shape
        return pattern_of(self._blocks(weight != 0).repeat_interleave(rows, 0).repeat_interleave(cols, 1))

    def tune(self, *, tokens: tuple[int, ...] = (1, 8, 32), training: bool = False, **options) -> None:
        """Tunes the weight for these numbers of tokens; ``training``: for the three products of a training step. ``options``:
        as for :func:`sparsmith.tune`. Raises SparsmithError if that fails, and for a layer that is constant."""
        if not trains(self.layer):
            raise SparsmithError("the weight of this layer is constant: optimize() has tuned it")
        with _tuning:
            self._tune(tokens, training, options)

    @torch.inference_mode(False)  # the packed bytes outlive the mode of this call
    def _tune(self, tokens: tuple[int, ...], training: bool, options: Mapping[str, Any]) -> None:
        self.layer.detach()
        if not self.block_mask().all():
            tuned = tune_layer(self.layer, tokens=tokens, search=True, training=training, **{"min_sparsity": 0.0, **options})
            if tuned is not None and not tuned[0][tuned[1]].dense:
                self.layer.attach(*tuned)
        self._decided = "training" if training else "inference"
        if self.verbose:
            print(f"BlockSparseLinear({self.extra_repr()}): {self.layer}")

    def _undecided(self, training: bool) -> bool:
        return trains(self.layer) and self._decided != "training" and (training or not self._decided) \
            and self.layer.values.dtype != torch.float64

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        training = torch.is_grad_enabled() and trains(self.layer) and self.layer.values.requires_grad
        if self._undecided(training) and not _recording(x):
            with _tuning:
                if self._undecided(training):  # another thread may have tuned it
                    tokens = (max(1, x.numel() // self.in_features),) if training else (1, 8, 32)
                    mixed = torch.is_autocast_enabled(x.device.type) and self.layer.values.dtype == torch.float32
                    self._tune(tokens, training, {"dtype": torch.get_autocast_dtype(x.device.type)} if mixed else {})
        return self.layer(x)

    def _make_dense(self) -> None:
        if trains(self.layer):
            self.layer.detach()
        else:
            weight = self.to_dense()
            layer = TrainableSparseLinear(weight, None, self._blocks_of(weight))
            layer.values.requires_grad_(False)
            layer.bias = self.bias  # optimizers hold it
            self.layer = layer.train(self.training)
        self._decided = ""

    def _apply(self, fn, recurse=True):
        old = self.layer.weight
        new = fn(torch.empty(0, dtype=old.dtype, device=old.device))
        if (new.dtype, new.device) != (old.dtype, old.device):
            self._make_dense()
        return super()._apply(fn, recurse)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        weight = state_dict.get(prefix + "weight")
        if weight is not None and weight.shape == (self.out_features, self.in_features):
            self._take_pattern(weight.detach())
        for name in ("weight", "bias"):
            if prefix + name in state_dict:
                state_dict[f"{prefix}layer.{name}"] = state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _take_pattern(self, weight: torch.Tensor) -> None:
        """Makes the layer one that holds the nonzeros of ``weight``, with the parameters that it has."""
        if not trains(self.layer):
            self._make_dense()
        if not self.layer.outside(weight):
            return
        values, bias = self.layer.values, self.layer.bias
        self.layer = TrainableSparseLinear(weight, None, self._blocks_of(weight)).train(self.training)
        values.data = self.layer.values.data.to(values)
        self.layer.values, self.layer.bias = values, bias
        self._decided = ""

    def __setstate__(self, state):
        super().__setstate__(state)
        if trains(self.layer) and self.layer.tuned is None:
            self._decided = ""

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, block_shape={self.block_shape}"


def _dense_state(module: BlockSparseLinear, state: dict[str, Any], prefix: str, metadata: dict[str, Any]) -> None:
    """Writes a dense weight in place of the state of ``layer``."""
    entries = {key.removeprefix(prefix + "layer."): state.pop(key)
               for key in [key for key in state if key.startswith(prefix + "layer.")]}
    state[prefix + "weight"] = module.to_dense()
    if "bias" in entries:
        state[prefix + "bias"] = entries["bias"]


def _recording(x: torch.Tensor) -> bool:
    """Whether the call is traced or captured, and cannot run other programs; meta tensors have no values."""
    return x.is_meta or torch.compiler.is_compiling() or (x.is_cuda and torch.cuda.is_current_stream_capturing())


def _check(out_features: int, in_features: int, density: float, block_shape: tuple[int, int]) -> tuple[int, int]:
    """Numbers of blocks along the two sides."""
    if not 0 < density <= 1:
        raise ValueError(f"density is {density}: give the share of blocks to keep, above 0 and at most 1")
    if len(block_shape) != 2 or not all(isinstance(side, int) and side > 0 for side in block_shape):
        raise ValueError(f"block_shape is {block_shape}: give (output features, input features)")
    if min(out_features, in_features) <= 0 or out_features % block_shape[0] or in_features % block_shape[1]:
        raise ValueError(f"the weight [{out_features}, {in_features}] does not divide into {block_shape[0]} x {block_shape[1]} "
                         "blocks: choose another block_shape")
    return out_features // block_shape[0], in_features // block_shape[1]


class ModelPatcher:
    """Replaces linear layers of a model by :class:`BlockSparseLinear`, with the interface of pytorch_block_sparse's
    BlockSparseModelPatcher. It prunes: train or calibrate the model before.

    Example:
        >>> from torch import nn
        >>> from sparsmith import ModelPatcher
        >>> model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
        >>> patcher = ModelPatcher()
        >>> patcher.add_pattern("0", {"density": 0.5})
        >>> patcher.patch_model(model)
        ['0']
    """

    def __init__(self) -> None:
        self.patterns: list[tuple[str, dict[str, Any]]] = []

    def add_pattern(self, pattern: str, patch_info: Mapping[str, Any]) -> None:
        """Layers whose full name, such as "encoder.layer.0.output.dense", matches the regular expression ``pattern`` as a
        whole are replaced. ``patch_info``: "density", and "block_shape" ((32, 32) by default), as of
        :class:`BlockSparseLinear`. Of several patterns that match a name, the first applies.

        Raises ValueError for other keys or no density; re.error for a bad regular expression."""
        unknown = set(patch_info) - {"density", "block_shape"}
        if unknown or "density" not in patch_info:
            raise ValueError(f"patch_info has the keys {sorted(patch_info)}: give density, and maybe block_shape")
        re.compile(pattern)
        self.patterns.append((pattern, dict(patch_info)))

    def get_patchable_layers(self, model: nn.Module) -> list[dict[str, Any]]:
        """A dict for each linear layer: "regexp", a pattern for this layer; "name"; "layer", the module. Layers that share
        their weight with an embedding, and block-sparse layers, are left out."""
        owners = other_owners(model)
        inner = {module.layer for module in model.modules() if isinstance(module, BlockSparseLinear)}
        return [{"regexp": re.escape(name), "name": name, "layer": module} for name, module in linear_layers(model).items()
                if name and module not in inner and id(parameter_of(module)) not in owners]

    def patch_model(self, model: nn.Module) -> list[str]:
        """Replaces the layers, in place, and returns their names. Nothing is tuned before the next forward.

        Raises ValueError if a pattern matches no layer, or if a layer cannot be divided into its blocks; the model is then
        unchanged."""
        layers = {entry["name"]: entry["layer"] for entry in self.get_patchable_layers(model)}
        chosen: dict[str, dict[str, Any]] = {}
        for pattern, info in self.patterns:
            matches = [name for name in layers if re.fullmatch(pattern, name)]
            if not matches:
                raise ValueError(f"the pattern {pattern!r} matches no layer: names are {', '.join([*layers][:5]) or 'none'}, "
                                 "...; get_patchable_layers lists them")
            for name in matches:
                chosen.setdefault(name, info)
        for name, info in chosen.items():
            try:
                _check(*shape_of(layers[name]), info["density"], info.get("block_shape", (32, 32)))
            except ValueError as error:
                raise ValueError(f"layer {name!r}: {error}") from None
        places = names_of(model)
        for name, info in chosen.items():
            made = BlockSparseLinear(0, 0, torch_nn_linear=layers[name], **info)
            made.train(layers[name].training)
            for place in places[layers[name]]:
                replace_module(model, place, made)
        return [name for name in layers if name in chosen]


BlockSparseModelPatcher = ModelPatcher
