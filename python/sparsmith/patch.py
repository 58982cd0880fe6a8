"""Replaces the linear layers of a model by tuned sparse layers."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from sparsmith import fusion, parallel, tuning
from sparsmith._library import SparsmithError
from sparsmith.layers import (
    dense_of,
    is_conv1d,
    is_linear,
    linear_layers,
    names_of,
    other_owners,
    parameter_of,
    replace_module,
    shape_of,
    trains,
)
from sparsmith.linear import SparseGroup, SparseGroupMember, SparseLinear
from sparsmith.trainable_linear import TrainableSparseLinear, training_bytes, untrainable
from sparsmith.tuned_file import TunedFile, TunedWeight, load, missing_kernels, warn_dense

FilterFn = Callable[[nn.Module, str], bool]


@dataclasses.dataclass(frozen=True)
class LayerReport:
    """What happened to a layer, or to a group of layers that run as one."""

    name: str
    shape: tuple[int, int]  # [out_features, in_features]; of a layer that is cut over ranks, this rank's part
    sparsity: float | None  # share of zeros; None where it was not looked at
    dense_bytes: int
    bytes: int  # of the weight after patching; both in training with Adam if the model is to train
    reason: str  # for a layer that stays dense; else empty
    tuned: TunedWeight | None  # None: not in the tuned file

    @property
    def layers(self) -> list[str]:
        """The names of the layers: one, or the layers of the group."""
        parent, dot, names = self.name.rpartition(".")
        return [parent + dot + name for name in names.split("+")]

    @property
    def gains(self) -> dict[int, float]:
        """Dense time over time by number of tokens, as far as known; of the three products of a step if the model is to
        train."""
        steps = {choice.tokens: self.tuned.step_us(choice.tokens) for choice in self.tuned.choices} if self.tuned else {}
        return {tokens: step[1] / step[0] for tokens, step in steps.items() if step}

    @property
    def patched(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        sparsity = "" if self.sparsity is None else f"{100 * self.sparsity:.1f} %"
        gains = ", ".join(f"{gain:.2f}x" for gain in self.gains.values())
        shape = f"{self.shape[0]} x {self.shape[1]}"
        return f"{self.name:<48} {shape:>15} {sparsity:>7} {gains:>20} {_bytes(self.dense_bytes):>9} -> " \
               f"{_bytes(self.bytes):<9} {self.choices_text()}"

    def choices_text(self) -> str:
        """The kernels by number of tokens, and what they compute besides the product; or why the layer stays dense."""
        if not self.patched:
            return "dense: " + self.reason
        return self.tuned.choices_text() + (f"; {self.tuned.fused} in the kernels" if self.tuned.fused else "")


@dataclasses.dataclass(frozen=True)
class PatchReport:
    """The layers of a model, patched or not. Text: a table."""

    layers: list[LayerReport]
    dry_run: bool
    tuned_file: str  # empty: none was made, as NVRTC is missing
    training: bool = False  # bytes and times are those of training

    @property
    def patched(self) -> list[LayerReport]:
        return [layer for layer in self.layers if layer.patched]

    @property
    def dense_bytes(self) -> int:
        """Bytes of all linear layers before."""
        return sum(layer.dense_bytes for layer in self.layers)

    @property
    def bytes(self) -> int:
        """Bytes of all linear layers after."""
        return sum(layer.bytes for layer in self.layers)

    def gain(self, tokens: int) -> float | None:
        """Time of the patched layers when they were dense, over their time now, at a tuned number of tokens; None where
        it is not known."""
        step = self.step_us(tokens)
        return step[1] / step[0] if step else None

    def step_us(self, tokens: int) -> tuple[float, float] | None:
        """Times in us of the patched layers at a tuned number of tokens, now and when they were dense; of the three products
        of a step if the model is to train. Layers whose times are not known are left out; None if that are all."""
        steps = [layer.tuned.step_us(tokens) for layer in self.patched if tokens in layer.gains]
        return (sum(step[0] for step in steps), sum(step[1] for step in steps)) if steps else None

    def __str__(self) -> str:
        lines = [str(layer) for layer in self.layers]
        verb = "would become" if self.dry_run else "became"
        lines.append(f"{len(self.patched)} of {len(self.layers)} linear layers {verb} sparse; "
                     f"{_bytes(self.dense_bytes)} -> {_bytes(self.bytes)}" + " in training with Adam" * self.training)
        for tokens in dict.fromkeys(tokens for layer in self.patched * self.training for tokens in layer.gains):
            own, dense = self.step_us(tokens)
            lines.append(f"{tokens} tokens: the products of a training step take {own:,.0f} us, dense {dense:,.0f} us")
        return "\n".join(lines)


def _bytes(number: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} B"


def _selected(name: str, module: nn.Module, include: str | Iterable[str] | None, exclude: str | Iterable[str] | None,
              filter_fn: FilterFn | None) -> bool:
    def matches(patterns) -> bool:
        return any(re.search(pattern, name) for pattern in ([patterns] if isinstance(patterns, str) else patterns))

    if include is not None and not matches(include):
        return False
    if exclude is not None and matches(exclude):
        return False
    return filter_fn is None or filter_fn(module, name)


def _report(name: str, modules: list[nn.Module], tuned: TunedWeight | None, reason: str, training: bool) -> LayerReport:
    rows, cols = sum(shape_of(module)[0] for module in modules), shape_of(modules[0])[1]
    dtype = parameter_of(modules[0]).dtype
    if tuned and tuned.split:
        rows, cols = tuned.shape
    size = rows * cols * dtype.itemsize
    own, dense = training_bytes(tuned, dtype) if training and tuned else (tuned.packed_bytes if tuned else size, size)
    return LayerReport(name, (rows, cols), tuned.sparsity if tuned else None, dense, dense if reason else own, reason, tuned)


def _misfit(tuned: TunedWeight, modules: list[nn.Module], activation: str, training: bool) -> str:
    """Why a tuned weight cannot take the place of the modules; empty if it can. ``activation``: that may be in kernels."""
    rows, shape = 0, tuned.whole_shape
    for module in modules:
        dtype, (out_features, in_features) = parameter_of(module).dtype, shape_of(module)
        rows += out_features
        if in_features != shape[1]:
            return f"the tuned weight has {shape[1]} input features, the layer {in_features}"
        if dtype != tuned.dtype and not (training and dtype == torch.float32):
            return f"the tuned weight is {tuned.dtype}, the layer {dtype}"
        if tuned.bias and module.bias is None:
            return "it was tuned with a bias, and the layer has none"
    if rows != shape[0]:
        return f"the tuned weight has {shape[0]} output features, the layer {rows}"
    if tuned.residual:
        return "it was tuned with a residual"
    if tuned.fused and tuned.fused != activation:
        return f"it was tuned with {tuned.fused}, which the model is not known to compute there"
    if tuned.fused and not tuned.bias and modules[0].bias is not None:
        return f"it was tuned with {tuned.fused} and without the layer's bias"
    return ""


def _group_bias(modules: list[nn.Module]) -> torch.Tensor | None:
    if modules[0].bias is None:
        return None
    return nn.Parameter(torch.cat([module.bias.detach() for module in modules]),
                        requires_grad=any(module.bias.requires_grad for module in modules))


def resolver(model: nn.Module, layers: Container[str]) -> Callable[[str], str]:
    """The layer of a tuned weight. As in checkpoints of transformers, one of both names may have the prefix of the base
    model."""
    prefix = getattr(model, "base_model_prefix", "") + "."

    def resolve(weight: str) -> str:
        name = weight.removesuffix(".weight")
        return next((other for other in (name, name.removeprefix(prefix), prefix + name) if other in layers), name)

    return resolve


def install(model: nn.Module, names: list[str], tuned: TunedWeight, packed: torch.Tensor, group: Any = None) -> None:
    """Puts a tuned weight in the place of the layers ``names``, with their biases, wherever the model has them.
    ``group``: the process group."""
    modules = [model.get_submodule(name) for name in names]
    if tuned.members:
        together = SparseGroup(tuned, packed, _group_bias(modules), group)
        together.train(modules[0].training)
        made = [SparseGroupMember(together, index) for index in range(len(names))]
    else:
        made = [SparseLinear(tuned, packed, modules[0].bias, group)]
    _put(model, modules, made)
    if tuned.fused:
        fusion.fuse(model, names[0], tuned)


def _put(model: nn.Module, modules: list[nn.Module], made: list[nn.Module]) -> None:
    """Puts sparse layers in the places of dense ones."""
    places = names_of(model)
    for dense, sparse in zip(modules, made, strict=True):
        sparse.training = dense.training
        sparse.was_conv1d = getattr(dense, "was_conv1d", is_conv1d(dense))
        sparse.weight_required_grad = is_linear(dense) and parameter_of(dense).requires_grad
        for place in places[dense]:
            replace_module(model, place, sparse)


def _trainable(module: nn.Module, file: TunedFile, name: str) -> TrainableSparseLinear:
    """A layer that trains, with the kernels of a tuned weight: ``module`` itself if it is one."""
    if trains(module):
        layer = module
    else:
        pattern = None if file.moving_block else file.pattern(name)
        layer = TrainableSparseLinear(dense_of(module), module.bias, pattern, file.moving_block)
        layer.values.requires_grad_(parameter_of(module).requires_grad)
    layer.attach(file, name)
    return layer


def _refuse_constant(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, (SparseLinear, SparseGroupMember)) and not trains(module):
            raise SparsmithError(f"{name} is a {type(module).__name__}, whose weight is constant: unpatch_model(model) makes it "
                                 "dense, and then it can train")


def _ignore_in_ddp(model: nn.Module) -> None:
    """DistributedDataParallel leaves the buffers of layers that train alone: each process has them, and they are constant."""
    ignored = {f"{name}.{key}" for name, module in model.named_modules() if trains(module) for key in module._buffers}
    if ignored:
        model._ddp_params_and_buffers_to_ignore = sorted({*getattr(model, "_ddp_params_and_buffers_to_ignore", ()), *ignored})


def _follow_saves(model: nn.Module) -> None:
    """``save_pretrained`` of models of transformers saves the tuned file too."""
    if "transformers" not in sys.modules:
        return
    try:
        from sparsmith import hf
    except ImportError:  # transformers before 5
        return
    hf.follow_saves(model)


def patch_model(model: nn.Module, tuned: TunedFile | str | os.PathLike, *,
                include: str | Iterable[str] | None = None, exclude: str | Iterable[str] | None = None,
                filter_fn: FilterFn | None = None, dry_run: bool = False, trusted: bool = False,
                training: bool = False, group: Any = None) -> PatchReport:
    """Replaces the linear layers of ``model`` that have a faster weight in the tuned file, in place.

    ``include``, ``exclude``: regular expressions, searched for in the layers' names. ``filter_fn(module, name)``: False
    keeps a layer. ``dry_run``: reports only. ``trusted``: as for :func:`sparsmith.load`. The weights of the file must be
    those of the model: only shapes and types are compared.

    ``training``: layers become :class:`TrainableSparseLinear`, with the model's values in the patterns of the file, which
    was tuned with ``training=True``. The model is unchanged if a nonzero lies outside, which is an error. Of a file that was
    loaded with ``moving_block`` the model may have any patterns with as many elements.

    A weight ``name.weight`` of the file takes the place of the layer ``name``. The layers of a group run as one where the
    model's class is known to call them with one input (``sparsmith.fusion``). Dense stay: layers that the file keeps
    dense, unless they train, and layers that share their weight with another kind of module, such as an embedding. Masks of
    ``torch.nn.utils.prune`` and hooks are removed with their layers. Sparse layers of an earlier call stay, and are not
    reported. ``save_pretrained`` of a model of transformers then saves the tuned file too
    (:func:`sparsmith.hf.save_pretrained`).

    If the file has no kernels for the GPU of a layer, the layer stays dense, with one warning.

    Of a rank's file of tensor parallelism, ``model`` is the whole dense model, also on the meta device, and ``group`` the
    process group; default: that of ``torch.distributed``. All layers that are cut over the ranks become sparse, also where
    their kernels are dense, and biases are cut with them. If one cannot, that is an error, and the model stays as it is.

    Raises SparsmithError if the file has no weight of the model, or is for another rank; re.error for a bad regular expression.
    """
    file = tuned if isinstance(tuned, TunedFile) else load(tuned, trusted=trusted, training=training)
    if training and not file.training:
        raise SparsmithError(f"{file.path} was loaded for constant weights: load it with training=True")
    if file.ranks > 1:
        parallel.check_group(file.path, file.rank, file.ranks, group)

    def chosen(name: str, module: nn.Module) -> bool:
        return _selected(name, module, include, exclude, filter_fn)

    if file.ranks > 1 and not dry_run:
        _patch(model, file, chosen, True, {}, training)  # an error comes before a change
    return _patch(model, file, chosen, dry_run, {}, training, group)


def _patch(model: nn.Module, file: TunedFile | None, selected: Callable[[str, nn.Module], bool], dry_run: bool,
           skipped: Mapping[str, str], training: bool, group: Any = None) -> PatchReport:
    """``file``: None if none was made. ``skipped``: why layers are not in the file."""
    layers = linear_layers(model)
    if "" in layers:
        raise SparsmithError("the model is itself a linear layer, which has no place in a model: use "
                             "SparseLinear.from_tuned or SparseLinear.from_linear")
    places, owners = names_of(model), other_owners(model)
    first_names = {name: names[0] for names in places.values() for name in names}
    resolve = resolver(model, first_names)
    groups = {tuple(members): name for name, members in fusion.shared_inputs(model, layers).items()}
    activations = {} if training else fusion.fused_activations(model, {*layers, *groups.values()})
    reports, taken, made = [], set(), []
    if training:
        _refuse_constant(model)
        for weight in file.weights.values() if file else ():
            if unfit := untrainable(weight):
                raise SparsmithError(f"{file.path}: {unfit}")

    def reason_to_keep(names: list[str]) -> str:
        if not all(selected(name, layers[name]) for name in names):
            return "not selected"
        shared = [owners[id(parameter_of(layers[name]))] for name in names if id(parameter_of(layers[name])) in owners]
        return f"its weight is {shared[0]}, too" if shared else ""

    def refuse_whole(label: str, weight: TunedWeight, reason: str) -> None:
        if weight.split and reason:
            raise SparsmithError(f"{file.path}: {label} is cut over {file.ranks} ranks and cannot stay dense: {reason}")

    def take(label: str, weight: TunedWeight, names: list[str]) -> None:
        modules = [layers[name] for name in names]
        taken.update(names)
        reason = reason_to_keep(names) or _misfit(weight, modules, activations.get(label, ""), training)
        if not reason and weight.dense and not training and not weight.split:  # in training the pattern stays, whatever the kernels
            reason = "; ".join(dict.fromkeys(choice.reason for choice in weight.choices)) or "dense is faster"
        device = parameter_of(modules[0]).device
        reason = reason or missing_kernels(file, device)
        refuse_whole(label, weight, reason)
        reports.append(_report(label, modules, weight, reason, training))
        if reason or dry_run:
            return
        if training:
            try:
                made.append((modules, [_trainable(modules[0], file, weight.name)]))
            except SparsmithError as error:
                raise SparsmithError(f"{label}: {error}") from None
            return
        install(model, names, weight, file.packed(weight.name).to("cpu" if device.type == "meta" else device),
                group)

    for weight in file.weights.values() if file else ():
        members = [member.name for member in weight.members] or [weight.name]
        names = [first_names.get(resolve(member), "") for member in members]
        if not all(name in layers and name not in taken for name in names):
            refuse_whole(weight.name, weight, f"{type(model).__name__} has no dense layer of that name")
            continue
        if not weight.members:
            take(names[0], weight, names)
        elif tuple(names) in groups:
            take(groups[tuple(names)], weight, names)
        else:
            taken.update(names)
            reason = f"in the group {weight.name}, and {type(model).__name__} is not known to call its layers with one input"
            refuse_whole(weight.name, weight, reason)
            reports += [_report(name, [layers[name]], None, reason, training) for name in names]
    for name, module in layers.items():
        if name not in taken:
            reason = reason_to_keep([name]) or skipped.get(name) or "not in the tuned file"
            reports.append(_report(name, [module], None, reason, training))
    if file and not taken and not any(isinstance(module, (SparseLinear, SparseGroupMember)) for module in places):
        raise SparsmithError(f"{file.path} has no weight of this model: it has {_some(file.weights)}; the model's layers are "
                             f"{_some(layers) or 'not linear'}")
    order = {name: index for index, name in enumerate(layers)}
    reports.sort(key=lambda report: order[report.layers[0]])
    for modules, layer in made:
        _put(model, modules, layer)
    if training:
        _ignore_in_ddp(model)
    elif not dry_run:
        _follow_saves(model)
    return PatchReport(reports, dry_run, file.path if file else "", training)


def _some(names: Collection[str]) -> str:
    return ", ".join([*names][:3]) + (", ..." if len(names) > 3 else "")


def unpatch_model(model: nn.Module) -> int:
    """Makes the sparse layers of a model dense again, in place: ``nn.Linear`` or ``Conv1D`` as before, with the same
    weights (zeros included). Returns the number of layers."""
    parallel.refuse_parts(model, "unpatch_model")
    found = {module: names for module, names in names_of(model).items()
             if isinstance(module, (SparseLinear, SparseGroupMember))}
    for module, names in found.items():
        weight, bias = module.to_dense(), module.bias
        if getattr(module, "was_conv1d", False):
            from transformers.pytorch_utils import Conv1D

            dense = Conv1D(module.out_features, module.in_features)
            weight = weight.t()
        else:
            dense = nn.Linear(module.in_features, module.out_features, bias=bias is not None, device="meta")
        wanted = module.values.requires_grad if trains(module) else getattr(module, "weight_required_grad", False)
        dense.weight = nn.Parameter(weight.contiguous(), requires_grad=wanted)
        if bias is not None:
            dense.bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
        dense.train(module.training)
        for name in names:
            replace_module(model, name, dense)
    fusion.unfuse(model)
    return len(found)


def optimize(model: nn.Module, *, tokens: Iterable[int] = (1, 8, 32), memory: str | None = None,
             include: str | Iterable[str] | None = None, exclude: str | Iterable[str] | None = None,
             filter_fn: FilterFn | None = None, output: str | os.PathLike | None = None, fuse: bool | None = None,
             training: bool = False, moving_block: int = 0, dtype: torch.dtype | None = None, progress: bool = True,
             **options) -> PatchReport:
    """Tunes the linear layers of a pruned model for its GPU, and replaces them where that is faster.

    ``tokens``: numbers of tokens per call, such as the batch sizes of decoding. ``memory``: the bound on the bytes of
    weights, "1x" by default: no layer takes more than its dense weight. ``include``, ``exclude``, ``filter_fn``: the
    layers to look at, as for :func:`patch_model`. ``output``: keep the tuned file under this path, for
    :func:`patch_model` in later processes; default: a temporary file. ``fuse``: activations behind layers become parts of
    their kernels, in model classes that are known (``sparsmith.fusion``), with the gate of ``act(gate(x)) * up(x)``; by
    default unless the model is in training mode. Where a gradient is wanted, such layers compute densely, and slowly.
    ``options``: as for :func:`sparsmith.tune`.

    ``training``: layers become :class:`TrainableSparseLinear`, tuned for the three products of a training step; give the
    tokens of a batch. ``dtype``: of their kernels, such as ``torch.bfloat16`` where a float32 model trains under
    ``torch.autocast``; default: the type of each layer. The report has the time of a step's products and the bytes of
    training. A layer keeps its pattern where its products stay dense; one that was not tuned trains all its elements.
    ``moving_block``: unless 0, patterns may change, in aligned blocks of this side
    (:meth:`TrainableSparseLinear.update_pattern`, :class:`sparsmith.training.RigL`).

    On a GPU without NVRTC, all layers stay dense, with one warning.

    Raises SparsmithError if no layer has enough zeros, or if tuning fails.
    """
    owners = other_owners(model)
    layers = {name: module for name, module in linear_layers(model).items()
              if _selected(name, module, include, exclude, filter_fn) and id(parameter_of(module)) not in owners}
    if training:
        _refuse_constant(model)
    if training and fuse:
        raise ValueError("fuse=True puts activations into kernels, which have no gradient then: training needs fuse=False")
    shared = {} if training else fusion.shared_inputs(model, layers)
    groups = [f"{name}:{','.join(member + '.weight' for member in members)}" for name, members in shared.items()]
    grouped = {member: name for name, members in shared.items() for member in members}
    parts = {grouped.get(name, name): ["bias"] for name, layer in layers.items() if layer.bias is not None}
    if fuse or (fuse is None and not model.training and not training):
        for name, activation in fusion.fused_activations(model, {*layers, *shared}).items():
            parts.setdefault(name, []).append(activation)
    epilogues = [f"{_quoted(name if name in shared else name + '.weight')}={'+'.join(part)}"
                 for name, part in parts.items()]
    path = output
    if path is None:
        folder = tempfile.mkdtemp(dir=tuning._scratch())
        path = os.path.join(folder, "model.tuned.safetensors")
    options.setdefault("device", tuning.device_option(layers.values()))
    arguments = [*options.pop("arguments", ()),
                 *(word for text in epilogues for word in ("--epilogue", text))]
    try:
        report = tuning.tune(model, path, tokens=tokens, memory=memory, groups=groups, layers=layers, progress=progress,
                             arguments=arguments, training=training, moving_block=moving_block, dtype=dtype, **options)
    except tuning.CompilerMissing as error:
        warn_dense(str(error))
        file, skipped = None, dict.fromkeys(layers, str(error))
    else:
        file = load(path, trusted=True, training=training, moving_block=moving_block)
        skipped = {name.removesuffix(".weight"): skip["reason"] for skip in report["skipped"]
                   for name in shared.get(skip["name"], [skip["name"]])}
    return _patch(model, file, lambda name, module: _selected(name, module, include, exclude, filter_fn), False, skipped,
                  training)


def _quoted(name: str) -> str:
    """A shell pattern that matches this name alone."""
    return re.sub(r"([*?\[\\])", r"\\\1", name)
