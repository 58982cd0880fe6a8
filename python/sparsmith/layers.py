"""The linear layers of a model, in the forms that models have them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear


def is_conv1d(module: nn.Module) -> bool:
    """Whether it is transformers' Conv1D, whose weight is [in_features, out_features]."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf") and getattr(module, "weight", None) is not None


def trains(module: nn.Module) -> bool:
    """Whether it is a TrainableSparseLinear, whose parameter holds the nonzeros of the weight alone."""
    return isinstance(getattr(module, "values", None), nn.Parameter) and hasattr(type(module), "row_offsets")


def is_linear(module: nn.Module) -> bool:
    """Whether it computes ``x @ W.T + bias`` and nothing else. A subclass with a ``forward`` of its own may compute more.
    ``nn.MultiheadAttention`` reads the weight of its ``out_proj`` and does not call it."""
    if isinstance(module, nn.Linear):
        return type(module).forward is nn.Linear.forward and not isinstance(module, NonDynamicallyQuantizableLinear)
    return is_conv1d(module) or trains(module)


def linear_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The linear layers by name. A layer with several names has the first."""
    return {name: module for name, module in model.named_modules() if is_linear(module)}


def names_of(model: nn.Module) -> dict[nn.Module, list[str]]:
    """The names of each module of a model, in its order."""
    names = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)
    return names


def other_owners(model: nn.Module) -> dict[int, str]:
    """The id of each parameter of a module that is not linear, such as an embedding, and the parameter's name."""
    return {id(parameter): f"{name}.{key}" if name else key
            for name, module in model.named_modules() if not is_linear(module)
            for key, parameter in module.named_parameters(recurse=False)}


def parameter_of(module: nn.Module) -> torch.Tensor:
    """The parameter behind the weight. torch.nn.utils.prune makes ``weight`` from ``weight_orig`` in each forward, so a
    move or a new type reaches ``weight`` late."""
    if trains(module):
        return module.values
    return module.weight_orig if hasattr(module, "weight_orig") else module.weight


def shape_of(module: nn.Module) -> tuple[int, int]:
    """[out_features, in_features]."""
    if trains(module):
        return module.out_features, module.in_features
    rows, cols = parameter_of(module).shape
    return (cols, rows) if is_conv1d(module) else (rows, cols)


def dense_of(module: nn.Module) -> torch.Tensor:
    """The weight [out_features, in_features]. Masks of torch.nn.utils.prune are applied."""
    if trains(module):
        return module.to_dense()
    weight = parameter_of(module).detach()
    if hasattr(module, "weight_mask"):
        weight = weight * module.weight_mask
    return weight.t().contiguous() if is_conv1d(module) else weight


def replace_module(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)
