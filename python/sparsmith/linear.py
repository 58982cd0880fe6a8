"""Linear layers with tuned sparse weights."""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch
from torch import nn

from sparsmith import ops
from sparsmith._library import SparsmithError, check_packed
from sparsmith.fusion import epilogue
from sparsmith.layers import dense_of, parameter_of
from sparsmith.parallel import Ranks, own_bias
from sparsmith.tuned_file import TunedFile, TunedWeight, load


class _TunedModule(nn.Module):
    """The packed bytes of a tuned weight, and its product with x. ``bias``: of the whole layer. ``group``: the process group
    of a weight that is cut over ranks."""

    def __init__(self, tuned: TunedWeight, packed: torch.Tensor, bias: torch.Tensor | None = None, group: Any = None) -> None:
        super().__init__()
        self.tuned = tuned
        self.plan = tuned.plan
        self.ranks = None if tuned.split is None else Ranks(tuned, group)
        bias = own_bias(tuned, bias)
        self.out_features, self.in_features = tuned.out_features, tuned.shape[1]
        if tuned.split is not None and tuned.split.whole:
            self.in_features = tuned.whole_shape[1]
            if self.ranks.gathers:
                self.out_features = tuned.split.whole_of(tuned.out_features)
        self.dtype = tuned.dtype
        self._know()
        self.register_buffer("packed", packed)
        self.register_buffer("_like", torch.full((), float("nan"), dtype=self.dtype, device=packed.device),
                             persistent=False)
        if bias is not None:
            bias = nn.Parameter(bias.detach().to("meta" if bias.is_meta else packed.device, tuned.dtype),
                                requires_grad=bias.requires_grad)
        self.bias = bias
        if bias is None and tuned.bias:
            self.bias = nn.Parameter(torch.zeros(tuned.shape[0], dtype=tuned.dtype, device=packed.device),
                                     requires_grad=False)

    def _know(self) -> None:
        ops.know(self.plan, self.tuned.shape, self.tuned.out_features, self.dtype, self.tuned.nnz, self.tuned.packed_bytes)

    def product(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(self.dtype)
        if self.ranks is None:
            return self._product(x, self.bias)
        late = self.ranks.sums and not self.tuned.bias
        y = self._product(self.ranks.enter(x, self.tuned.shape[1]), None if late else self.bias)
        y = self.ranks.leave(y, self._outputs())
        return y + self.bias if late and self.bias is not None else y

    def _outputs(self) -> list[int]:
        """The outputs of each weight of a group, of this rank."""
        return [self.tuned.out_features] if self.tuned.gated or not self.tuned.members else \
            [member.rows for member in self.tuned.members]

    def _product(self, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        fused = bias if self.tuned.bias else None
        if torch.is_grad_enabled() and (x.requires_grad or (fused is not None and fused.requires_grad)):
            if self.tuned.residual:
                raise SparsmithError(f"{self.tuned.name} was tuned with a residual for inference, and has no gradient: use "
                                     "torch.no_grad(), or tune it without the residual")
            if self.tuned.fused:
                if not torch.compiler.is_compiling():
                    warnings.warn("sparsmith: layers with activations in their kernels compute a gradient densely, and unpack "
                                  "their weights on the host for it: optimize(model, fuse=False) before training", stacklevel=3)
                return epilogue(self.tuned, nn.functional.linear(x, self.to_dense(), bias))
            y = ops.Linear.apply(x, self.packed, fused, self.plan)
        else:
            y = ops.linear(x, self.packed, fused, self.plan)
        return y if bias is None or self.tuned.bias else y + bias

    def to_dense(self) -> torch.Tensor:
        """The weight, [out_features, in_features], on the device of the layer: of one that is cut over ranks, this rank's
        part. Takes its dense bytes of memory."""
        whole = not self.tuned.fused and not self.tuned.residual
        return ops.dense_weight(self.packed, self.plan, self.tuned.bias, whole)

    def _apply(self, fn, recurse=True):
        def moved(tensor: torch.Tensor) -> torch.Tensor:
            other = fn(tensor)
            return other if other.dtype == tensor.dtype else tensor.to(other.device)

        return super()._apply(moved, recurse)  # the packed values keep their type, so the bias does

    def _load_from_state_dict(self, state_dict, prefix, *args):
        packed = state_dict.get(prefix + "packed")
        if packed is not None:  # it may come from anywhere, and kernels take its numbers as addresses
            check_packed(self.plan, packed.detach().cpu().contiguous())
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __setstate__(self, state):
        super().__setstate__(state)
        if not ops.known(self.tuned.plan) and os.path.exists(self.tuned.file):
            load(self.tuned.file)  # a new process does not know the plan
        self._know()

    def extra_repr(self) -> str:
        tuned = self.tuned
        extra = f", fused={tuned.fused}" if tuned.fused else ""
        extra += f", {tuned.split.dimension} of rank {tuned.split.rank} of {tuned.split.ranks}" if tuned.split else ""
        return (f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
                f"dtype={self.dtype}, sparsity={tuned.sparsity:.3f}{extra}, bytes={tuned.packed_bytes} of "
                f"{tuned.dense_bytes}, choices={{{tuned.choices_text()}}}")


class _LikeWeight(torch.Tensor):
    """A tensor that answers for a weight, and refuses to compute. As it has a ``__torch_function__``, the fast paths of
    ``nn.TransformerEncoder``, which read the weights of their layers, are not taken."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = function.__name__
        if name != "__get__" and name not in _ANSWERS:
            raise SparsmithError(f"{name} was called on the weight of a sparse layer, which is not stored as a dense tensor: "
                                 "call the layer, or use its to_dense()")
        return super().__torch_function__(function, types, args, kwargs or {})


_ANSWERS = {"size", "dim", "ndimension", "numel", "nelement", "element_size", "stride", "untyped_storage", "get_device",
            "is_floating_point", "is_complex", "__len__", "__hash__", "__repr__", "as_subclass"}

# torch.compile before 2.9 does not trace as_subclass: the weight is a plain tensor of NaN there.
_OLD_COMPILER = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 9)


def _like_weight(like: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    weight = like.expand(shape)
    plain = _OLD_COMPILER and torch.compiler.is_compiling()
    return weight if plain else weight.as_subclass(_LikeWeight)


class SparseLinear(_TunedModule):
    """``nn.Linear`` with a tuned sparse weight: ``y = x @ W.T + bias``.

    x: [..., in_features] of the layer's type, on a GPU or the CPU; y: [..., out_features], through the activation that
    the weight was tuned with (``tuned.fused``). Gradients of x and of the bias are those of a dense layer, at its speed;
    the weight is constant (:class:`TrainableSparseLinear` trains). ``packed`` holds the packed bytes of the weight
    (a buffer: it moves, is copied and saved with the module). Make it with :meth:`from_tuned`, :meth:`from_linear` or
    :func:`sparsmith.patch_model`.

    A weight with a ``tuned.split`` is a part of a layer that the ranks of a process group compute together: cut by rows, y is
    this rank's part of the output features; cut by columns, x is this rank's part of the input features, and y is summed over
    the ranks. If ``tuned.split.whole``, x and y are whole. The collectives may be compiled, and captured into CUDA graphs.

    A pickled layer, or its ``state_dict``, needs the tuned file (``tuned.file``) when it is loaded.
    """

    @classmethod
    def from_tuned(cls, file: TunedFile, name: str, bias: torch.Tensor | None = None,
                   device: torch.device | str | None = None, group: Any = None) -> SparseLinear:
        """The layer of a weight of a tuned file. Raises KeyError for a weight that the file does not have.

        ``bias``: of the whole layer. ``group``: the process group of a weight that is cut over ranks; default: that of
        ``torch.distributed``. Raises SparsmithError if this process has another rank than the file."""
        return cls(file[name], file.packed(name).to(device or "cpu"), bias, group)

    @staticmethod
    def from_linear(linear: nn.Module, *, tokens: tuple[int, ...] = (1, 8, 32), search: bool = False,
                    training: bool = False, moving_block: int = 0, **options) -> nn.Module:
        """The sparse layer of an ``nn.Linear`` or transformers ``Conv1D``, tuned for these numbers of tokens.

        A cost model chooses the kernels from the pattern of the weight. Nothing is timed, and ``choices`` are not
        ``measured``, unless the cache has results of a search. The model knows A100, H100 and B200: it takes the one with
        the architecture of the layer's GPU; for a layer on the CPU, of the first GPU; without a GPU, H100. NVRTC compiles
        the kernels; a second call for the same weight takes them from the cache.

        ``search``: time candidates on the GPU, which takes seconds. A GPU of another architecture is searched in any case.
        ``training``: the layer is a :class:`TrainableSparseLinear` with the values of ``linear``, tuned for the three products
        of a step; ``tokens`` are then those of a batch. ``moving_block``: unless 0, the pattern may change, in aligned blocks
        of this side (:meth:`TrainableSparseLinear.update_pattern`). ``options``: as for :func:`sparsmith.tune`, such as
        ``dtype=torch.bfloat16`` for float32 values under ``torch.autocast``.

        Returns ``linear`` itself if it is on a GPU and NVRTC is missing, with one warning. Raises SparsmithError for a
        weight with too few zeros."""
        from sparsmith.trainable_linear import TrainableSparseLinear
        from sparsmith.tuning import tune_layer

        tuned = tune_layer(linear, tokens=tokens, search=search, training=training, moving_block=moving_block, **options)
        if tuned is None:
            return linear
        if not training:
            return SparseLinear.from_tuned(*tuned, linear.bias, parameter_of(linear).device)
        file, name = tuned
        layer = TrainableSparseLinear(dense_of(linear), linear.bias, file.pattern(name), moving_block)
        layer.values.requires_grad_(parameter_of(linear).requires_grad)
        layer.attach(file, name)
        return layer.train(linear.training)

    @property
    def weight(self) -> torch.Tensor:
        """A tensor with the shape, type and device of the dense weight, for code that looks at these. Computing with it
        is an error: :meth:`to_dense` makes the weight."""
        return self._weight_like(self.tuned.shape)

    def _weight_like(self, shape: tuple[int, int]) -> torch.Tensor:
        return _like_weight(self._like, shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x)


class SparseGroup(_TunedModule):
    """Weights with one input that run as one: [rows of all members, in_features]. :class:`SparseGroupMember` are its
    layers."""

    def __init__(self, tuned: TunedWeight, packed: torch.Tensor, bias: torch.Tensor | None = None, group: Any = None) -> None:
        super().__init__(tuned, packed, bias, group)
        whole = self.ranks is not None and self.ranks.gathers
        self._rows = [tuned.split.whole_of(member.rows) if whole else member.rows for member in tuned.members]
        self._held = None  # (x, state of x, outputs, bits of the members that have taken theirs)

    def member_output(self, x: torch.Tensor, index: int) -> torch.Tensor:
        """The output of a member. The first call with an x runs the group; the others take their parts. A second call of
        a member, another gradient mode, or an x that was written to runs the group again; tensors of inference mode do
        not tell that they were written to."""
        if self.tuned.gated:
            raise SparsmithError(f"{self.tuned.name} computes one output for all of its layers: call the module that holds "
                                 "them, or use optimize(model, fuse=False)")
        versioned = not torch.compiler.is_compiling() and not x.is_inference()
        state = (x._version if versioned else 0, torch.is_grad_enabled())
        held = self._held
        if held is None or held[0] is not x or held[1] != state or held[3] >> index & 1:
            held = (x, state, self.product(x).split(self._rows, dim=-1), 0)
        taken = held[3] | 1 << index
        self._held = None if taken + 1 == 1 << len(self._rows) else (*held[:3], taken)
        return held[2][index]

    def __getstate__(self):
        return {**self.__dict__, "_held": None}


class SparseGroupMember(nn.Module):
    """A layer of a group, in the place of its ``nn.Linear``. ``group`` is a submodule of the first member: ``state_dict``
    lists its bytes once, as "q_proj.group.packed". The other members refer to it."""

    def __init__(self, group: SparseGroup, index: int) -> None:
        super().__init__()
        if index == 0:
            self.group = group
        else:
            object.__setattr__(self, "group", group)
        self.index = index
        self.in_features = group.in_features
        self.out_features = group._rows[index]

    @property
    def weight(self) -> torch.Tensor:
        """As of :class:`SparseLinear`."""
        return _like_weight(self.group._like, (self.group.tuned.members[self.index].rows, self.in_features))

    @property
    def dtype(self) -> torch.dtype:
        return self.group.dtype

    @property
    def bias(self) -> torch.Tensor | None:
        return None if self.group.bias is None else self.group.bias[self._lines()]

    def _load_from_state_dict(self, state_dict, prefix, *args):
        if self.index > 0:  # a state may list the group under each member
            for key in [key for key in state_dict if key.startswith(prefix + "group.")]:
                del state_dict[key]
        super()._load_from_state_dict(state_dict, prefix, *args)

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
