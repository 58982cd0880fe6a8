"""Layers with one input, in the model classes that are known to have them."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from sparsmith.layers import parameter_of

# Of attention and feed-forward modules, by the end of their class's name: children that the module calls with the same
# tensor, and that have no other reader. One operator runs the children of each tuple.
_SHARED_INPUT = {
    **dict.fromkeys(
        ("LlamaAttention", "MistralAttention", "Qwen2Attention", "Qwen3Attention", "GemmaAttention", "Gemma2Attention",
         "Gemma3Attention"),
        ("q_proj", "k_proj", "v_proj")),
    **dict.fromkeys(("LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP", "GemmaMLP", "Gemma2MLP", "Gemma3MLP"),
                    ("gate_proj", "up_proj")),
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
