"""Layers that run as one, and activations that become parts of kernels, in the model classes that are known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from sparsmith.layers import parameter_of, replace_module

if TYPE_CHECKING:
    from sparsmith.tuned_file import TunedWeight

# Feed-forward modules that compute down_proj(act_fn(gate_proj(x)) * up_proj(x)).
_GATED = ("LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP", "GemmaMLP", "Gemma2MLP", "Gemma3MLP")

# Of modules, by the name of their class: a layer, and the activation that alone reads its output.
_ACTIVATED = {
    **dict.fromkeys(("BertIntermediate", "RobertaIntermediate"), ("dense", "intermediate_act_fn")),
    "GPT2MLP": ("c_fc", "act"),
}

_ACTIVATIONS = {
    "none": lambda x: x,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
}

# Of attention and feed-forward modules, by the end of their class's name: children that the module calls with the same
# tensor, and that have no other reader. One operator runs the children of each tuple.
_SHARED_INPUT = {
    **dict.fromkeys(
        ("LlamaAttention", "MistralAttention", "Qwen2Attention", "Qwen3Attention", "GemmaAttention", "Gemma2Attention",
         "Gemma3Attention"),
        ("q_proj", "k_proj", "v_proj")),
    **dict.fromkeys(_GATED, ("gate_proj", "up_proj")),
    **dict.fromkeys(("BertSelfAttention", "BertSdpaSelfAttention", "RobertaSelfAttention", "RobertaSdpaSelfAttention"),
                    ("query", "key", "value")),
}


def shared_inputs(model: nn.Module, layers: Mapping[str, nn.Module]) -> dict[str, list[str]]:
    """Groups of ``layers`` that read one input: the group's name, "model.layers.0.self_attn.q_proj+k_proj+v_proj", and
    the names of its layers."""
    groups = {}
    for name, module in model.named_modules():
        children = _SHARED_INPUT.get(type(module).__name__)
        if children is None:
            continue
        prefix = name + "." if name else ""
        members = [prefix + child for child in children]
        if all(isinstance(layers.get(member), nn.Linear) for member in members):
            same_bias = len({layers[member].bias is None for member in members}) == 1
            same_type = len({(parameter_of(layers[member]).dtype, layers[member].in_features) for member in members}) == 1
            if same_bias and same_type:
                groups[prefix + "+".join(children)] = members
    return groups


def _activation_of(module: object) -> str | None:
    """The name that epilogues have for an activation."""
    match type(module).__name__:
        case "ReLU":
            return "relu"
        case "SiLU" | "SiLUActivation":
            return "silu"
        case "GELUActivation":
            return "gelu"
        case "GELU":
            return "gelu" if module.approximate == "none" else "gelu_tanh"
        case "GELUTanh" | "PytorchGELUTanh" | "NewGELUActivation":
            return "gelu_tanh"
    return None


def fused_activations(model: nn.Module, names: Collection[str]) -> dict[str, str]:
    """Activations that can be parts of the kernels of layers and groups ``names``: "gelu" of a layer that it follows,
    "silu+gated" of gate and up."""
    fused = {}
    for name, module in model.named_modules():
        kind = type(module).__name__
        layer, activation = ("gate_proj+up_proj", "act_fn") if kind in _GATED else _ACTIVATED.get(kind, ("", ""))
        layer = f"{name}.{layer}" if name else layer
        found = _activation_of(getattr(module, activation, None))
        if layer in names and found:
            fused[layer] = found + ("+gated" if kind in _GATED else "")
    return fused


class FusedActivation(nn.Module):
    """In the place of an activation that is a part of the kernels in front of it."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation
        self.training = activation.training

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class GatedMLP(nn.Module):
    """A feed-forward module whose gate, activation and product are one operator: ``down_proj(act(gate(x)) * up(x))``."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.gate_proj.group.product(x))


def fuse(model: nn.Module, layer: str, tuned: TunedWeight) -> None:
    """Takes the activation out of the module of ``layer``, whose kernels have it now."""
    parent = model.get_submodule(layer.rpartition(".")[0])
    if tuned.gated:
        parent.dense_class, parent.__class__ = type(parent), GatedMLP
    elif tuned.activation != "none":
        _, activation = _ACTIVATED[type(parent).__name__]
        setattr(parent, activation, FusedActivation(getattr(parent, activation)))


def unfuse(model: nn.Module) -> None:
    """Takes back what :func:`fuse` did in a whole model."""
    for name, module in [*model.named_modules()]:
        if isinstance(module, GatedMLP):
            module.__class__ = module.__dict__.pop("dense_class")
        elif isinstance(module, FusedActivation):
            replace_module(model, name, module.activation)


def epilogue(tuned: TunedWeight, y: torch.Tensor) -> torch.Tensor:
    """What the kernels of a weight do behind product and bias."""
    activation = _ACTIVATIONS[tuned.activation]
    if not tuned.gated:
        return activation(y)
    gate, up = y.chunk(2, dim=-1)
    return activation(gate) * up
