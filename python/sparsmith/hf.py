"""Sparse models in Hugging Face folders.

    import sparsmith.hf

    sparsmith.optimize(model)
    model.save_pretrained("pruned-sparse")
    model = AutoModelForCausalLM.from_pretrained("pruned-sparse")  # the layers are sparse

``import sparsmith.hf`` registers the quantization method "sparsmith" with transformers. A saved folder has the tuned file
besides ``config.json`` and the checkpoint. Without the import, transformers warns about the unknown method and loads the
dense weights of the checkpoint.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.quantizers import HfQuantizer, register_quantization_config, register_quantizer
from transformers.quantizers.quantizers_utils import should_convert_module
from transformers.utils import cached_file
from transformers.utils.quantization_config import QuantizationConfigMixin

from sparsmith._library import SparsmithError
from sparsmith.layers import is_conv1d, linear_layers, replace_module, trains
from sparsmith.linear import SparseGroupMember, SparseLinear
from sparsmith.parallel import refuse_parts
from sparsmith.patch import install, patch_model, resolver, unpatch_model
from sparsmith.tuned_file import TunedWeight, load, missing_kernels

_TUNED_FILE = "model.tuned.safetensors"


@register_quantization_config("sparsmith")
class SparsmithConfig(QuantizationConfigMixin):
    """``quantization_config`` of a sparse model.

    ``tuned_file``: the tuned file, relative to the folder of the model, or absolute. ``modules_to_not_convert``: names of
    layers that stay dense, as for other quantization methods of transformers; None: the output embeddings. Layers with
    tied weights stay dense in any case.

    A dense folder loads sparse with
    ``from_pretrained(folder, quantization_config=SparsmithConfig("model.tuned.safetensors"))``; here, the path may also be
    relative to the current folder.
    """

    def __init__(self, tuned_file: str | os.PathLike = _TUNED_FILE, modules_to_not_convert: list[str] | None = None,
                 **_: Any) -> None:
        self.quant_method = "sparsmith"
        self.tuned_file = os.fspath(tuned_file)
        self.modules_to_not_convert = modules_to_not_convert


class _Unloaded(nn.Module):
    """In the place of a layer whose weight is not read: it takes the bias from the checkpoint, and, of each weight, the
    device for the packed bytes."""

    def __init__(self, layer: nn.Module, packed_bytes: int | None) -> None:
        super().__init__()
        self.bias = layer.bias
        self.was_conv1d = is_conv1d(layer)
        self.weight = layer.weight.detach()  # on the meta device; the models' initialisations look at it
        self.weight._is_hf_initialized = True
        if packed_bytes is not None:
            self.register_buffer("packed", torch.empty(packed_bytes, dtype=torch.uint8, device="meta"), persistent=False)


@register_quantizer("sparsmith")
class SparsmithQuantizer(HfQuantizer):
    """Puts the sparse layers of a tuned file into a model while transformers loads it. The dense weights of these layers
    are not read, and may be missing from the checkpoint. If the file has no kernels for a GPU of the model, the model is
    loaded dense, with one warning."""

    def __init__(self, quantization_config: SparsmithConfig, **kwargs: Any) -> None:
        super().__init__(quantization_config, **kwargs)
        self._file = None
        self._weights: list[tuple[TunedWeight, list[str]]] = []

    def validate_environment(self, *args: Any, device_map: Any = None, **kwargs: Any) -> None:
        devices = {str(device) for device in device_map.values()} if isinstance(device_map, dict) else set()
        if "disk" in devices or ("cpu" in devices and len(devices) > 1):
            raise SparsmithError(f"device_map offloads layers ({', '.join(sorted(devices))}); sparse layers stay on their "
                                 "device: put the whole model on GPUs, or on the CPU")

    def _process_model_before_weight_loading(self, model: PreTrainedModel, checkpoint_files: list[str] | None = None,
                                             device_map: Any = None, **kwargs: Any) -> None:
        self._file = load(self._tuned_path(model, checkpoint_files))
        if any(missing_kernels(self._file, device) for device in _devices(device_map)):
            return
        tied = model.all_tied_weights_keys
        dense = self.get_modules_to_not_convert(model, self.quantization_config.modules_to_not_convert)
        dense += [key.removesuffix(".weight") for key in (*tied.keys(), *tied.values())]
        report = patch_model(model, self._file, filter_fn=lambda _, name: should_convert_module(name, dense), dry_run=True)
        for layer in report.layers:
            if layer.tuned and not layer.tuned.dense and layer.reason not in ("", "not selected"):
                raise SparsmithError(f"{self._file.path} does not fit {layer.name}: {layer.reason}")
        self._weights = [(layer.tuned, layer.layers) for layer in report.patched]
        unread = set()
        for weight, names in self._weights:
            for name in names:
                first = name == names[0]
                replace_module(model, name, _Unloaded(model.get_submodule(name), weight.packed_bytes if first else None))
                unread.add(rf"(^|\.){re.escape(name.removeprefix(model.base_model_prefix + '.'))}\.weight$")
        model._keys_to_ignore_on_load_unexpected = {*(model._keys_to_ignore_on_load_unexpected or ()), *unread}

    def _process_model_after_weight_loading(self, model: PreTrainedModel, **kwargs: Any) -> PreTrainedModel:
        for weight, names in self._weights:
            replaced = [model.get_submodule(name) for name in names]
            for layer in replaced:
                if layer.bias is not None and not getattr(layer.bias, "_is_hf_initialized", True):
                    nn.init.zeros_(layer.bias)  # the checkpoint has none, as transformers has reported
            install(model, names, weight, replaced[0].packed.copy_(self._file.packed(weight.name)))
            for name, layer in zip(names, replaced, strict=True):
                if hasattr(layer, "_hf_hook"):  # accelerate's, for the device of the layer
                    from accelerate.hooks import add_hook_to_module

                    add_hook_to_module(model.get_submodule(name), layer._hf_hook)
        self.quantization_config.tuned_file = self._file.path
        self._file, self._weights = None, []
        follow_saves(model)
        return model

    def _tuned_path(self, model: PreTrainedModel, checkpoint_files: list[str] | None) -> str:
        name, source = self.quantization_config.tuned_file, model.config.name_or_path
        folder = os.path.dirname(checkpoint_files[0]) if checkpoint_files else ""
        places = [os.path.join(folder, name)] + ([] if self.pre_quantized else [name])
        for path in places:
            if os.path.isfile(path):
                return path
        if source and not os.path.exists(source) and not os.path.isabs(name):  # on the Hub
            try:
                return cached_file(source, name, revision=getattr(model.config, "_commit_hash", None))
            except OSError as error:
                raise SparsmithError(f"{source} has no tuned file {name}: {error}") from error
        raise SparsmithError(f"the tuned file {places[0]} is missing: copy it there, or name it with "
                             "from_pretrained(..., quantization_config=SparsmithConfig(...)) and without "
                             "quantization_config in config.json")

    def get_state_dict_and_metadata(self, model: PreTrainedModel) -> tuple[dict[str, torch.Tensor] | None, dict]:
        if getattr(model, "_hf_peft_config_loaded", False):  # only the adapter is saved
            return None, {}
        return _checkpoint(model, model.state_dict(), lambda name, weight: weight), {}

    def _dequantize(self, model: PreTrainedModel, dtype: torch.dtype | None = None) -> PreTrainedModel:
        unpatch_model(model)
        return model

    def is_serializable(self, *args: Any, **kwargs: Any) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        """Adapters can be trained on top of the sparse weights, which are constant."""
        return True


def _devices(device_map: Any) -> set[torch.device]:
    """Devices that layers may come to. A text such as "auto" names all GPUs."""
    if isinstance(device_map, dict):
        return {torch.device(device) for device in device_map.values()}
    return {torch.device("cuda", index) for index in range(torch.cuda.device_count())} if device_map else set()


def _sparse_layers(model: nn.Module) -> dict[str, SparseLinear | SparseGroupMember]:
    return {name: module for name, module in model.named_modules(remove_duplicate=False)
            if isinstance(module, (SparseLinear, SparseGroupMember))}


def _dense_weights(layers: dict[str, nn.Module]) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and dense weights of layers, in the layout of their checkpoint. One layer or group is made at a time."""
    group, rows = None, ()
    for name, layer in layers.items():
        if isinstance(layer, SparseGroupMember):
            if layer.group is not group:
                group = layer.group
                rows = group.to_dense().split([member.rows for member in group.tuned.members])
            yield name, rows[layer.index]
        else:
            yield name, layer.to_dense().t() if getattr(layer, "was_conv1d", False) else layer.to_dense()


def _checkpoint(model: nn.Module, state: dict[str, torch.Tensor],
                keep: Callable[[str, torch.Tensor], torch.Tensor] | None) -> dict[str, torch.Tensor]:
    """``state`` with the names of the dense model, without those that are tied to others. ``keep``: stores a dense weight;
    None: weights have no elements, so that loading them fails."""
    layers = _sparse_layers(model)
    packed = {name + end for name in layers for end in (".packed", ".group.packed", ".group.bias")}
    state = {key: value for key, value in state.items() if key not in packed}
    for name, layer in layers.items():
        if isinstance(layer, SparseGroupMember) and layer.bias is not None:
            state[name + ".bias"] = layer.bias.detach().clone()
        if keep is None:
            state[name + ".weight"] = torch.empty(0, dtype=layer.dtype)
    if keep is not None:
        for name, weight in _dense_weights(layers):
            state[name + ".weight"] = keep(name, weight)
    tied = {key for key in model.all_tied_weights_keys if key.rpartition(".")[0] in layers}
    return {key: value for key, value in state.items() if key not in tied}


def save_pretrained(model: PreTrainedModel, folder: str | os.PathLike, *, dense: bool = True,
                    tuned_file: str = _TUNED_FILE, **options: Any) -> None:
    """Saves a model with sparse layers as a Hugging Face folder: ``config.json`` that names the method "sparsmith", the
    checkpoint, and a copy of the tuned file under the name ``tuned_file``.

    ``dense``: the checkpoint has the dense weights of sparse layers too, zeros included, so that the folder also loads
    without sparsmith. False leaves them out: the checkpoint is smaller, and loading it without ``import sparsmith.hf``
    fails with an error about sizes. Dense weights are made one at a time, in files; they do not take memory.
    ``options``: as for ``PreTrainedModel.save_pretrained``, such as ``max_shard_size``.

    ``model.save_pretrained(folder)`` of a patched or loaded model is the same, with ``dense=True``. To upload the folder,
    call ``model.push_to_hub()``.

    Raises SparsmithError if the model has no sparse layer, if its tuned file is missing, or if its layers are of several
    tuned files.
    """
    layers = _sparse_layers(model)
    if not isinstance(model, PreTrainedModel) or not layers:
        raise SparsmithError(f"{type(model).__name__} is not a model of transformers with sparse layers")
    if any(trains(layer) for layer in layers.values()):
        raise SparsmithError(f"{type(model).__name__} has layers that train, whose values are not in a tuned file: call "
                             "sparsmith.optimize(model) for constant weights first, or unpatch_model(model) for dense ones")
    refuse_parts(model, "save_pretrained")
    if options.pop("push_to_hub", False):
        raise SparsmithError("push_to_hub=True does not upload the tuned file: call model.push_to_hub(repository)")
    tuned = [layer.group.tuned if isinstance(layer, SparseGroupMember) else layer.tuned for layer in layers.values()]
    files = sorted({weight.file for weight in tuned})
    if len(files) > 1:
        raise SparsmithError(f"the layers are of {len(files)} tuned files, {', '.join(files)}: patch or optimize the model "
                             "in one call")
    if not os.path.isfile(files[0]):
        raise SparsmithError(f"the tuned file {files[0]} of the model is missing")
    os.makedirs(folder, exist_ok=True)
    config = SparsmithConfig(tuned_file, _kept_dense(model, files[0]))
    state = options.pop("state_dict", None) or model.state_dict()
    with tempfile.TemporaryDirectory(prefix=".sparsmith-", dir=folder) as scratch:

        def keep(name: str, weight: torch.Tensor) -> torch.Tensor:
            stored = torch.from_file(os.path.join(scratch, name), shared=True, size=weight.numel(), dtype=weight.dtype)
            return stored.view(weight.shape).copy_(weight)

        state = _checkpoint(model, state, keep if dense else None)
        if options.get("is_main_process", True):
            _copy(files[0], os.path.join(folder, tuned_file))
    quantizer, before = getattr(model, "hf_quantizer", None), getattr(model.config, "quantization_config", None)
    model.hf_quantizer, model.config.quantization_config = None, config  # the state is made already
    try:
        type(model).save_pretrained(model, folder, state_dict=state, **options)
    finally:
        model.hf_quantizer, model.config.quantization_config = quantizer, before
        if quantizer is None:
            del model.hf_quantizer
        if before is None:
            del model.config.quantization_config


def _kept_dense(model: nn.Module, path: str) -> list[str]:
    """Layers that are sparse in the tuned file, and dense in the model."""
    layers = linear_layers(model)
    resolve = resolver(model, layers)
    names = [member.name if weight.members else weight.name for weight in load(path).weights.values() if not weight.dense
             for member in weight.members or (weight,)]
    return sorted({resolve(name) for name in names} & set(layers))


def _copy(source: str, target: str) -> None:
    if os.path.exists(target) and os.path.samefile(source, target):
        return
    shutil.copyfile(source, target + ".part")
    os.replace(target + ".part", target)  # a process that has the old file open keeps it


def _save(self: PreTrainedModel, save_directory: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
    if _sparse_layers(self) and not getattr(self, "_hf_peft_config_loaded", False):
        names = ("is_main_process", "state_dict", "push_to_hub", "max_shard_size", "variant", "token")
        return save_pretrained(self, save_directory, **dict(zip(names, args, strict=False)), **kwargs)
    if not _sparse_layers(self) and isinstance(getattr(self, "hf_quantizer", None), SparsmithQuantizer):
        self.hf_quantizer.remove_quantization_config(self)  # the layers have been made dense
    return type(self).save_pretrained(self, save_directory, *args, **kwargs)


_save.__name__ = "save_pretrained"  # a pickled model has the method of its class


def follow_saves(model: nn.Module) -> None:
    """Makes ``save_pretrained`` of ``model``, and of the models of transformers in it, :func:`save_pretrained`."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            module.save_pretrained = types.MethodType(_save, module)


def register_lora(config: Any) -> Any:
    """Lets a ``peft.LoraConfig`` target sparse layers: LoRA is trained on top of their constant weights. Returns the
    config.

        config = sparsmith.hf.register_lora(LoraConfig(target_modules=["q_proj", "v_proj"]))
        model = peft.get_peft_model(model, config)

    PEFT does not save this: to load an adapter, give ``PeftModel.from_pretrained(model, folder, config=config)`` the
    config of ``register_lora(PeftConfig.from_pretrained(folder))``. Adapters cannot be merged into sparse weights.
    """
    from sparsmith.lora import SparseLora

    config._register_custom_module({SparseLinear: SparseLora, SparseGroupMember: SparseLora})
    return config
