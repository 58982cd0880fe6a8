"""The linear layers of a model, in the forms that models have them."""

from __future__ import annotations

import torch
from torch import nn


def is_conv1d(module: nn.Module) -> bool:
    """Whether it is transformers' Conv1D, whose weight is [in_features, out_features]."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf") and getattr(module, "weight", None) is not None


def is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or is_conv1d(module)


def linear_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The linear layers by name. A layer with several names has the first."""
    return {name: module for name, module in model.named_modules() if is_linear(module)}


def dense_of(module: nn.Module) -> torch.Tensor:
    """The weight [out_features, in_features]. Masks of torch.nn.utils.prune are applied."""
    if hasattr(module, "weight_orig") and hasattr(module, "weight_mask"):
        weight = module.weight_orig.detach() * module.weight_mask
    else:
        weight = module.weight.detach()
    return weight.t().contiguous() if is_conv1d(module) else weight


def replace_module(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)
