"""Linear layers with tuned sparse weights."""

from __future__ import annotations

import os

import torch
from torch import nn

from sparsmith import ops
from sparsmith._library import SparsmithError, check_packed
from sparsmith.tuned_file import TunedFile, TunedWeight, load

_ACTIVATIONS = {"relu": torch.relu, "gelu": nn.functional.gelu, "silu": nn.functional.silu}


class _TunedModule(nn.Module):
    """The packed bytes of a tuned weight, and its product with x."""

    def __init__(self, tuned: TunedWeight, packed: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.tuned = tuned
        self.plan = tuned.plan
        self.out_features, self.in_features = tuned.shape
        self.dtype = tuned.dtype
        ops.know(tuned.plan, tuned.shape, tuned.dtype)
        self.register_buffer("packed", packed)
        self.bias = None if bias is None else nn.Parameter(bias.detach().to(packed.device, tuned.dtype),
                                                           requires_grad=bias.requires_grad)
        if bias is None and tuned.bias:
            self.bias = nn.Parameter(torch.zeros(self.out_features, dtype=tuned.dtype, device=packed.device),
                                     requires_grad=False)

    def product(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(self.dtype)
        fused = self.bias if self.tuned.bias else None
        if torch.is_grad_enabled() and (x.requires_grad or (fused is not None and fused.requires_grad)):
            if self.tuned.activation != "none" or self.tuned.residual:
                raise SparsmithError(f"{self.tuned.name} was tuned with {self.tuned.activation} for inference, and has no "
                                     "gradient: use torch.no_grad(), or tune it without an activation")
            y = ops.Linear.apply(x, self.packed, fused, self.plan)
        else:
            y = ops.linear(x, self.packed, fused, self.plan)
        return y if self.bias is None or self.tuned.bias else y + self.bias

    def to_dense(self) -> torch.Tensor:
        """The weight, [out_features, in_features], on the device of the layer. Takes its dense bytes of memory."""
        whole = self.tuned.activation == "none" and not self.tuned.residual
        return ops.dense_weight(self.packed, self.plan, self.tuned.bias, whole)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        for name, tensor in [*self.named_parameters(recurse=False), *self.named_buffers(recurse=False)]:
            if tensor.is_floating_point() and tensor.dtype != self.dtype:  # the packed values keep their type
                tensor.data = tensor.data.to(self.dtype)
        return self

    def _load_from_state_dict(self, state_dict, prefix, *args):
        packed = state_dict.get(prefix + "packed")
        if packed is not None:  # it may come from anywhere, and kernels take its numbers as addresses
            check_packed(self.plan, packed.detach().cpu().contiguous())
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __setstate__(self, state):
        super().__setstate__(state)
        if os.path.exists(self.tuned.file):
            load(self.tuned.file)  # a new process does not know the plan
        ops.know(self.tuned.plan, self.tuned.shape, self.tuned.dtype)

    def extra_repr(self) -> str:
        tuned = self.tuned
        extra = f", activation={tuned.activation}" if tuned.activation != "none" else ""
        return (f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
                f"dtype={self.dtype}, sparsity={tuned.sparsity:.3f}{extra}, bytes={tuned.packed_bytes} of "
                f"{tuned.dense_bytes}, choices={{{tuned.choices_text()}}}")


class SparseLinear(_TunedModule):
    """``nn.Linear`` with a tuned sparse weight: ``y = x @ W.T + bias``.

    x: [..., in_features] of the layer's type, on a GPU or the CPU; y: [..., out_features]. Gradients of x and of the
    bias are those of a dense layer, at its speed; the weight is constant. ``packed`` holds the packed bytes of the weight
    (a buffer: it moves, is copied and saved with the module). Make it with :meth:`from_tuned`, :meth:`from_linear` or
    :func:`sparsmith.patch_model`.

    A pickled layer, or its ``state_dict``, needs the tuned file (``tuned.file``) when it is loaded.
    """

    def __init__(self, tuned: TunedWeight, packed: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__(tuned, packed, bias)
        self.register_buffer("_like", torch.full((), float("nan"), dtype=self.dtype, device=packed.device),
                             persistent=False)

    @classmethod
    def from_tuned(cls, file: TunedFile, name: str, bias: torch.Tensor | None = None,
                   device: torch.device | str | None = None) -> SparseLinear:
        """The layer of a weight of a tuned file. Raises KeyError for a weight that the file does not have."""
        return cls(file[name], file.packed(name).to(device or "cpu"), bias)

    @classmethod
    def from_linear(cls, linear: nn.Module, *, tokens: tuple[int, ...] = (1, 8, 32), **options) -> SparseLinear:
        """Tunes the weight of an ``nn.Linear`` (or a transformers ``Conv1D``) for these numbers of tokens, with a
        short search: on its GPU, or by prediction without one. ``options``: as for :func:`sparsmith.tune`.
        Raises SparsmithError for a weight with too few zeros."""
        from sparsmith.tuning import tune_layer

        file, name = tune_layer(linear, tokens=tokens, **options)
        return cls.from_tuned(file, name, linear.bias, linear.weight.device)

    @property
    def weight(self) -> torch.Tensor:
        """A tensor with the shape, type and device of the dense weight, for code that looks at these. Its elements are
        NaN: :meth:`to_dense` makes the weight."""
        return self._like.expand(self.out_features, self.in_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x)


class SparseGroup(_TunedModule):
    """Weights with one input that run as one: [rows of all members, in_features]. :class:`SparseGroupMember` are its
    layers."""

    def __init__(self, tuned: TunedWeight, packed: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__(tuned, packed, bias)
        self._rows = [member.rows for member in tuned.members]
        self._held = None  # (x, outputs, members that have not taken theirs)

    def member_output(self, x: torch.Tensor, index: int) -> torch.Tensor:
        """The output of a member. The first call with an x runs the group; the others take their parts."""
        held = self._held
        if held is None or held[0] is not x:
            held = (x, self.product(x).split(self._rows, dim=-1), len(self._rows))
        self._held = (x, held[1], held[2] - 1) if held[2] > 1 else None
        return held[1][index]

    def __getstate__(self):
        return {**self.__dict__, "_held": None}


class SparseGroupMember(nn.Module):
    """A layer of a group, in the place of its ``nn.Linear``."""

    def __init__(self, group: SparseGroup, index: int) -> None:
        super().__init__()
        self.group = group
        self.index = index
        self.in_features = group.in_features
        self.out_features = group.tuned.members[index].rows

    @property
    def dtype(self) -> torch.dtype:
        return self.group.dtype

    @property
    def weight(self) -> torch.Tensor:
        """As of :class:`SparseLinear`: shape, type and device of the dense weight, with NaN."""
        like = torch.full((), float("nan"), dtype=self.dtype, device=self.group.packed.device)
        return like.expand(self.out_features, self.in_features)

    @property
    def bias(self) -> torch.Tensor | None:
        return None if self.group.bias is None else self.group.bias[self._lines()]

    def _lines(self) -> slice:
        member = self.group.tuned.members[self.index]
        return slice(member.first_row, member.first_row + member.rows)

    def to_dense(self) -> torch.Tensor:
        """The weight of this layer, [out_features, in_features]."""
        return self.group.to_dense()[self._lines()].clone()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.group.member_output(x, self.index)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"
