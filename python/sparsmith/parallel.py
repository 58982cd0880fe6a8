"""Tensor parallelism: layers whose weight is cut over the ranks of a process group.

A layer that is cut by rows (output features; "column-parallel" in Megatron's words) makes its rank's part of y without
communication. One that is cut by columns (input features; "row-parallel") reads its rank's part of x, and sums y over
the ranks. Gradients of x are summed or cut likewise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from sparsmith._library import SparsmithError
from sparsmith.tuned_file import TunedSplit, TunedWeight


def check_group(what: str, rank: int, ranks: int, group: Any) -> None:
    """Raises SparsmithError unless this process has the rank in the process group; None is the default group."""
    if not dist.is_available() or not dist.is_initialized():
        raise SparsmithError(f"{what} is for rank {rank} of {ranks}: call torch.distributed.init_process_group() first")
    own, size = dist.get_rank(group), dist.get_world_size(group)
    if (own, size) != (rank, ranks):
        raise SparsmithError(f"{what} is for rank {rank} of {ranks}, and this process is rank {own} of {size}: give each "
                             "process the file of its rank")


class Ranks:
    """What a layer exchanges with the other ranks of its process group."""

    def __init__(self, tuned: TunedWeight, group: Any = None) -> None:
        self.split: TunedSplit = tuned.split
        check_group(tuned.name, self.split.rank, self.split.ranks, group)
        self.group = group

    def __deepcopy__(self, memo: dict) -> Ranks:
        return self  # constant, as the process group is

    @property
    def sums(self) -> bool:
        """y is a sum over ranks. A bias that the kernels do not add comes behind it."""
        return self.split.dimension == "columns"

    @property
    def gathers(self) -> bool:
        return self.split.whole and not self.sums

    def sizes(self, own: int) -> list[int]:
        """The parts of all ranks of a dimension, of which this rank has ``own`` elements."""
        return [own // self.split.units_of(self.split.rank) * self.split.units_of(rank)
                for rank in range(self.split.ranks)]

    def enter(self, x: torch.Tensor, in_features: int) -> torch.Tensor:
        """This rank's x."""
        grad = torch.is_grad_enabled() and x.requires_grad
        if not self.sums:
            return _Shared.apply(x, self.group) if grad else x
        if not self.split.whole:
            return x
        sizes = self.sizes(in_features)
        return _Taken.apply(x, sizes, self.split.rank, self.group) if grad else _own(x, sizes, self.split.rank)

    def leave(self, y: torch.Tensor, parts: Sequence[int]) -> torch.Tensor:
        """y of all ranks. ``parts``: the numbers of outputs that each weight of a group has here."""
        grad = torch.is_grad_enabled() and y.requires_grad
        if self.sums:
            return _Summed.apply(y, self.group) if grad else _summed(y, self.group)
        if not self.gathers:
            return y
        whole = [_Gathered.apply(part, self.sizes(part.shape[-1]), self.split.rank, self.group) if grad
                 else _gathered(part, self.sizes(part.shape[-1]), self.group) for part in y.split(list(parts), dim=-1)]
        return whole[0] if len(whole) == 1 else torch.cat(whole, dim=-1)


def own_bias(tuned: TunedWeight, bias: torch.Tensor | None) -> torch.Tensor | None:
    """This rank's part of the bias of a whole layer, or of all layers of a group one behind the other."""
    split = tuned.split
    if bias is None or split is None:
        return bias
    if len(bias) != tuned.whole_shape[0]:
        raise SparsmithError(f"{tuned.name}: the bias has {len(bias)} elements; give that of the whole layer, of "
                             f"{tuned.whole_shape[0]}")
    if split.dimension == "columns":
        own = torch.zeros_like(bias) if tuned.bias and split.rank > 0 else bias  # the kernels of one rank add it
    else:
        rows = [split.whole_of(member.rows) for member in tuned.members] or [len(bias)]
        own = torch.cat([part[split.part_of(len(part))] for part in bias.detach().split(rows)])
    return nn.Parameter(own.detach(), requires_grad=bias.requires_grad)


def refuse_parts(model: nn.Module, what: str) -> None:
    """Raises SparsmithError if layers hold parts of weights alone."""
    for name, module in model.named_modules():
        if isinstance(getattr(module, "ranks", None), Ranks):
            raise SparsmithError(f"{what}: {name} has this rank's part of its weight alone; use the dense model")


def _summed(y: torch.Tensor, group: Any) -> torch.Tensor:
    dist.all_reduce(y, group=group)
    return y


def _own(x: torch.Tensor, sizes: Sequence[int], rank: int) -> torch.Tensor:
    if x.shape[-1] != sum(sizes):
        raise SparsmithError(f"x has {x.shape[-1]} features, and the whole layer {sum(sizes)}")
    return x.narrow(-1, sum(sizes[:rank]), sizes[rank]).contiguous()


def _gathered(y: torch.Tensor, sizes: Sequence[int], group: Any) -> torch.Tensor:
    most = max(sizes)
    lines = nn.functional.pad(y, (0, most - y.shape[-1])).reshape(-1, most)  # collectives take parts of one size
    everyone = lines.new_empty(len(sizes) * lines.shape[0], most)
    dist.all_gather_into_tensor(everyone, lines, group=group)
    parts = everyone.view(len(sizes), *y.shape[:-1], most)
    return torch.cat([parts[rank, ..., :size] for rank, size in enumerate(sizes)], dim=-1)


class _Shared(torch.autograd.Function):
    """x that all ranks read."""

    @staticmethod
    def forward(context, x, group):
        context.group = group
        return x.view_as(x)

    @staticmethod
    def backward(context, grad):
        return _summed(grad.clone(memory_format=torch.contiguous_format), context.group), None


class _Summed(torch.autograd.Function):
    """The sum of all ranks' y, which all of them read alike."""

    @staticmethod
    def forward(context, y, group):
        return _summed(y.clone(), group)

    @staticmethod
    def backward(context, grad):
        return grad, None


class _Gathered(torch.autograd.Function):
    """The parts of all ranks, which all of them read alike."""

    @staticmethod
    def forward(context, y, sizes, rank, group):
        context.sizes, context.rank = sizes, rank
        return _gathered(y, sizes, group)

    @staticmethod
    def backward(context, grad):
        return _own(grad, context.sizes, context.rank), None, None, None


class _Taken(torch.autograd.Function):
    """The rank's part of an x that all ranks have."""

    @staticmethod
    def forward(context, x, sizes, rank, group):
        context.sizes, context.group = sizes, group
        return _own(x, sizes, rank)

    @staticmethod
    def backward(context, grad):
        return _gathered(grad, context.sizes, context.group), None, None, None


_DIMENSIONS = {"colwise": "rows", "rowwise": "columns"}

_EXAMPLE = "splits=['attention/8:rows=*.q_proj.weight,rows=*.k_proj.weight,rows=*.v_proj.weight,columns=*.o_proj.weight', " \
    "'mlp:rows=*.gate_proj.weight,rows=*.up_proj.weight,columns=*.down_proj.weight'], where 8 is the number of key and " \
    "value heads"


def default_splits(config: Any, layers: Collection[str]) -> list[str]:
    """The splits that the configuration of a transformers model names, of those of ``layers`` (by their names): its
    ``base_model_tp_plan`` and ``num_key_value_heads``, as the option ``--split``. Raises SparsmithError if there are
    none."""
    plan: Mapping[str, str] = getattr(config, "base_model_tp_plan", None) or {}
    members: dict[str, list[tuple[str, str]]] = {}
    for pattern, style in plan.items():
        tail = pattern.rpartition("*")[2]
        if style in _DIMENSIONS and "*" in pattern and any(("." + name).endswith(tail) for name in layers):
            members.setdefault(tail.rpartition(".")[0], []).append((_DIMENSIONS[style], f"*{tail}.weight"))
    splits = []
    for parent, of_parent in members.items():
        heads = getattr(config, "num_key_value_heads", None) if "attn" in parent or "attention" in parent else None
        name = parent.strip(".").replace(".", "_") + (f"/{heads}" if heads else "")
        splits.append(f"{name}:" + ",".join(f"{dimension}={member}" for dimension, member in of_parent))
    if not splits:
        raise SparsmithError("the model's configuration names no layers for tensor parallelism (base_model_tp_plan): give "
                             + _EXAMPLE)
    return splits


def splits_of(model: nn.Module | str, layers: Collection[str] | None) -> list[str]:
    """:func:`default_splits` of a module and its ``layers``, or of a Hugging Face folder."""
    if isinstance(model, nn.Module):
        return default_splits(getattr(model, "config", None), layers)
    try:
        from transformers import AutoConfig, AutoModel

        config = AutoConfig.from_pretrained(model, local_files_only=True)
        with torch.device("meta"):
            layers = [name for name, module in AutoModel.from_config(config).named_modules() if isinstance(module, nn.Linear)]
    except (ImportError, OSError, ValueError) as error:
        raise SparsmithError(f"{model} is no folder of a transformers model ({error}): give {_EXAMPLE}") from None
    return default_splits(config, layers)
