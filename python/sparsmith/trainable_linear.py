"""Linear layers with sparse weights that train."""

from __future__ import annotations

import os
import warnings

import torch
from torch import nn

from sparsmith import ops, patterns
from sparsmith._library import SparsmithError
from sparsmith.linear import SparseLinear
from sparsmith.pattern_packing import write_order, write_pattern
from sparsmith.patterns import BlockPattern, Carry
from sparsmith.tuned_file import TunedFile, TunedWeight, load

Pattern = tuple[torch.Tensor, torch.Tensor]  # row offsets and column indices


def pattern_of(mask: torch.Tensor) -> Pattern:
    """The pattern of a mask [rows, cols]."""
    offsets = nn.functional.pad(mask.sum(1).cumsum(0), (1, 0))
    return offsets.cpu(), mask.nonzero()[:, 1].to(torch.int32).cpu()


def _entangled(tuned: TunedWeight) -> bool:
    return bool(tuned.fused or tuned.residual or tuned.members)


def untrainable(tuned: TunedWeight) -> str:
    """Why layers of a tuned weight cannot train; empty if they can."""
    if _entangled(tuned):
        return f"{tuned.name} was tuned as a group, or with an activation or residual in its kernels, and has no gradients of " \
               "these: tune it alone, with no epilogue but bias"
    if not tuned.trains:
        return f"{tuned.name} was tuned for {', '.join(tuned.operators)} alone: tune with training=True, or with `sparsmith " \
               "tune --train`, and load the file with training=True"
    return ""


def training_bytes(tuned: TunedWeight, dtype: torch.dtype) -> tuple[int, int]:
    """Bytes of memory of a weight in training with Adam, with values of a type: those of the tuned weight, and those of a
    dense one with a mask. Both have values, their gradient and two moments; the tuned weight has its packed bytes besides,
    the dense one a byte of mask an element, and a copy in the type of the kernels if that differs. A pattern that may move is
    on the device as well."""
    elements = tuned.shape[0] * tuned.shape[1]
    copy = 0 if tuned.dtype == dtype else tuned.dtype.itemsize
    pattern = patterns.held_bytes(tuned.nnz, tuned.moving_block) if tuned.moving_block else 0
    return tuned.packed_bytes + pattern + 4 * dtype.itemsize * tuned.nnz, elements * (4 * dtype.itemsize + 1 + copy)


class TrainableSparseLinear(SparseLinear):
    """``nn.Linear`` with a sparse weight that trains: ``y = x @ W.T + bias``.

    ``values``: a parameter [nnz], the elements of W in its pattern, row by row, ascending columns. Optimizers, DDP, clipping
    and weight decay take it as any other parameter. Elements outside of the pattern stay 0, elements of value 0 stay in it.
    ``row_offsets`` and ``column_indices`` hold the pattern, on the CPU. It changes by :meth:`update_pattern` alone, where
    ``moving_block`` is not 0.

    x: [..., in_features], y: [..., out_features], of the type of the kernels, ``dtype``. ``values`` and ``bias`` have this
    type, or are float32 while the kernels compute in float16 or bfloat16, as under ``torch.autocast``. Gradients have the
    types of the parameters. The product, the gradient of x and the gradient of the values each run in tuned kernels. Before
    each product, kernels copy ``values`` into the packed weight: changes of any origin count, also in a captured CUDA graph.

    Without kernels that fit, a layer computes densely, with the same results: if it was not tuned, if values are float64, if
    values and x are float32 and the kernels are not, and if the tuned file of a pickled layer is gone. ``state_dict`` has ``values``, ``bias`` and the pattern; loading compares the pattern, and takes a dense
    ``weight`` as well, if its nonzeros lie in the pattern. Make the layer with :meth:`SparseLinear.from_linear`,
    :func:`sparsmith.optimize` or :func:`sparsmith.patch_model`, each with ``training=True``.

    ``weight``: [out_features, in_features], on any device. ``pattern``: row offsets and column indices; by default the
    nonzeros of ``weight``. ``moving_block``: the side of the aligned blocks in which the pattern may change, 1 for single
    elements; 0: it is constant. By default each block with a nonzero is then in the pattern as a whole. Raises SparsmithError if
    ``weight`` has nonzeros outside of the pattern, and ValueError for a shape or pattern that is not made of blocks.

    Example:
        >>> import torch
        >>> from sparsmith import TrainableSparseLinear
        >>> layer = TrainableSparseLinear(torch.tensor([[0.0, 2.0], [3.0, 0.0]]))
        >>> layer(torch.ones(1, 2)).sum().backward()
        >>> layer.values.grad
        tensor([1., 1.])
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None, pattern: Pattern | None = None,
                 moving_block: int = 0) -> None:
        nn.Module.__init__(self)
        weight = weight.detach()
        self.out_features, self.in_features = weight.shape
        if pattern is None:
            mask = weight != 0
            if moving_block > 1:
                held = patterns.blocked(mask, moving_block).any(3).any(2)
                mask = held.repeat_interleave(moving_block, 0).repeat_interleave(moving_block, 1)
            pattern = pattern_of(mask)
        offsets, columns = pattern
        self.moving_block = moving_block
        # Of a layer that watches its dense gradient: zeros [out_features, in_features] that the weight adds, a leaf.
        self.dense_zeros: torch.Tensor | None = None
        self._set_pattern(offsets, columns)
        blocks = None
        if moving_block:
            blocks = BlockPattern.of_positions(self.positions(), moving_block, weight.shape).blocks.to(weight.device)
        self._pattern: BlockPattern | None = None  # of these blocks
        self.register_buffer("_blocks", blocks, persistent=False)  # BlockPattern.blocks, where the pattern may move
        values, outside = self._gather(weight)
        if outside:
            raise SparsmithError(self._outside(outside))
        self.values = nn.Parameter(values)
        self.bias = None
        if bias is not None:
            self.bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
        self.tuned: TunedWeight | None = None
        self.plan = 0
        self.register_buffer("packed", None, persistent=False)
        self.register_buffer("_positions", None, persistent=False)  # of the values in the dense weight
        self.register_buffer("_like", torch.full((), float("nan"), dtype=weight.dtype, device=weight.device),
                             persistent=False)

    def _set_pattern(self, offsets: torch.Tensor, columns: torch.Tensor) -> None:
        # The least integers that PyTorch has for these numbers.
        self._row_offsets = offsets.to(torch.int32 if columns.numel() < 2**31 else torch.int64)
        self._column_indices = columns.to(torch.int16 if self.in_features <= 2**15 else torch.int32)

    @property
    def row_offsets(self) -> torch.Tensor:
        """Where the values of each row begin, and those of the last one end: [out_features + 1]."""
        self._read_pattern()
        return self._row_offsets

    @property
    def column_indices(self) -> torch.Tensor:
        """The column of each value."""
        self._read_pattern()
        return self._column_indices

    def _read_pattern(self) -> None:
        """After an update the pattern is on the device alone."""
        if self._row_offsets is None:
            pattern = self.block_pattern()
            self._set_pattern(pattern.row_offsets().cpu(), pattern.column_indices().cpu())

    def block_pattern(self) -> BlockPattern:
        """The pattern, on the device of ``values``. Of layers whose pattern may move."""
        if self._pattern is not None and self._pattern.blocks is self._blocks:
            return self._pattern
        pattern = BlockPattern(self._blocks, self.moving_block, (self.out_features, self.in_features))
        self._pattern = pattern if patterns.keeps(self.moving_block) else None
        return pattern

    @classmethod
    def from_tuned(cls, file: TunedFile, name: str, bias: torch.Tensor | None = None,
                   device: torch.device | str | None = None) -> TrainableSparseLinear:
        """The layer of a weight of a tuned file, with the values that the file has. Raises KeyError for a weight that the
        file does not have; SparsmithError for one that was not tuned or loaded for training."""
        layer = cls(file.to_dense(name).to(device or "cpu"), bias, file.pattern(name), file.moving_block)
        layer.attach(file, name)
        return layer

    def attach(self, file: TunedFile, name: str) -> None:
        """Takes the kernels of a weight of a tuned file that was loaded for training, for this layer's pattern. Values stay.
        Raises KeyError for a weight that the file does not have; SparsmithError for an unfit one."""
        tuned = file[name]
        if not file.training:
            raise SparsmithError(f"{file.path} was loaded for constant weights: load it with training=True")
        if file.moving_block != self.moving_block:
            raise SparsmithError(f"{file.path} was loaded with moving_block={file.moving_block}, and the layer has "
                                 f"moving_block={self.moving_block}")
        if _entangled(tuned):
            raise SparsmithError(untrainable(tuned))
        same = tuned.nnz == self.values.numel() if self.moving_block else self._has_pattern(file.pattern(name))
        if tuned.shape != (self.out_features, self.in_features) or not same:
            raise SparsmithError(f"{name} of {file.path} has another pattern than the layer, [{self.out_features}, "
                                 f"{self.in_features}] with {self.values.numel()} values: tune this layer")
        if tuned.bias and self.bias is None:
            raise SparsmithError(f"{name} of {file.path} was tuned with a bias, and the layer has none")
        self.tuned, self.plan = tuned, tuned.plan
        self._know()
        if self.moving_block:
            packed = torch.zeros(tuned.packed_bytes, dtype=torch.uint8, device=self.values.device)
            write_order(packed, tuned.packings)
            write_pattern(packed, tuned.packings, tuned.dtype.itemsize, self.block_pattern())
            self.packed = packed
        else:
            self.packed = file.packed(name).to(self.values.device)
            self._positions = None

    def detach(self) -> None:
        """Gives the kernels back: the layer then computes densely."""
        self.tuned, self.plan, self.packed = None, 0, None

    @torch.no_grad()
    def update_pattern(self, pattern: torch.Tensor | BlockPattern) -> Carry:
        """Moves the pattern, on the device of ``values``: values of elements that stay are kept, those of new ones are 0.
        ``values`` stays the same parameter, and so do plans, captured graphs and compiled code.

        ``pattern``: a mask of bool, [out_features, in_features]; the ascending positions of the elements in the dense weight,
        row by row, int64 [nnz]; or a :class:`sparsmith.patterns.BlockPattern` of the layer's blocks, which is taken as it is.
        There are as many elements as before. Returns what moves tensors that belong to ``values``, such as moments of an
        optimizer.

        Raises SparsmithError, with nothing changed, for a layer with ``moving_block`` 0, another number of elements,
        positions that do not ascend, and a pattern that takes more tiles than the packed weight has room for (a quarter more
        than the pattern that was tuned, or those that all patterns of its blocks need).

        From the third pattern on, patterns of blocks of 8 and more are written by CUDA graphs. These keep scratch memory on the
        device, for the layer that needs most: 17 bytes an element of its pattern in blocks of 32, 33 in blocks of 16. Do not call
        this in two streams of a device at once."""
        if not self.moving_block:
            raise SparsmithError("the pattern of this layer is constant: make it with moving_block=1, or the side of its blocks")
        old, count = self.block_pattern(), self.values.numel()
        if not isinstance(pattern, BlockPattern):
            given, pattern = pattern.to(old.blocks.device), None
            try:
                if given.dtype == torch.bool and given.shape == old.shape:
                    pattern = BlockPattern.of_mask(given, old.side)
                elif given.dtype == torch.int64 and given.dim() == 1:
                    pattern = BlockPattern.of_positions(given, old.side, old.shape)
            except ValueError as error:
                raise SparsmithError(f"update_pattern: {error}") from None
            if pattern is None:
                raise SparsmithError(f"update_pattern takes a mask of bool, [{self.out_features}, {self.in_features}], or positions "
                                     f"of int64, not {given.dtype} [{', '.join(map(str, given.shape))}]")
        if pattern.nnz != count:
            raise SparsmithError(f"the pattern has {pattern.nnz} elements, and the layer {count}: update_pattern moves as many "
                                 "elements as there are")
        if self.tuned is not None:
            write_pattern(self.packed, self.tuned.packings, self.tuned.dtype.itemsize, pattern)
        carry = old.carry_to(pattern)
        self.values.copy_(carry(self.values))
        self._blocks, self._row_offsets, self._column_indices = pattern.blocks, None, None
        self._pattern = pattern if patterns.keeps(self.moving_block) else None
        return carry

    def watch_dense_gradient(self, watch: bool = True) -> None:
        """Whether backward also computes the gradient of all elements of the dense weight, into ``dense_zeros.grad``,
        [out_features, in_features], of the type of ``values``. It accumulates, as gradients do. Takes a dense product."""
        if not watch:
            self.dense_zeros = None
        elif self.dense_zeros is None:
            zero = torch.zeros((), dtype=self.values.dtype, device=self.values.device)
            self.dense_zeros = zero.expand(self.out_features, self.in_features).requires_grad_()

    @property
    def dtype(self) -> torch.dtype:
        """Of x and y: that of the kernels; of the values if there are none."""
        return self.tuned.dtype if self.tuned else self.values.dtype

    @property
    def weight(self) -> torch.Tensor:
        """As of :class:`SparseLinear`."""
        return self._weight_like((self.out_features, self.in_features))

    def to_dense(self) -> torch.Tensor:
        """The weight, [out_features, in_features], of the type and on the device of ``values``."""
        return self._dense().detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tuned, values, bias = self.tuned, self.values, self.bias
        gradient = torch.is_grad_enabled() and (x.requires_grad or values.requires_grad
                                                or (bias is not None and bias.requires_grad))
        autocast = torch.is_autocast_enabled(x.device.type)
        other = tuned is not None and not autocast and x.dtype == values.dtype != tuned.dtype
        if other and gradient and values.dtype != torch.float64 and not torch.compiler.is_compiling():
            warnings.warn(f"sparsmith: {tuned.name} computes densely, as x is {x.dtype} and its kernels take {tuned.dtype}: train "
                          f"under torch.autocast({x.device.type!r}, {tuned.dtype})", stacklevel=2)
        if tuned is None or other or values.dtype == torch.float64 or (gradient and not tuned.trains):
            weight = self._dense()
            return nn.functional.linear(x, weight if self.dense_zeros is None else weight + self.dense_zeros, bias)
        if autocast:
            x = x.to(tuned.dtype)
        fused = bias.to(tuned.dtype) if tuned.bias else None
        if gradient:
            y = ops.TrainedLinear.apply(x, values, self.packed, fused, self.plan, self.dense_zeros)
        else:
            y = ops.linear(x, self.packed, fused, self.plan, None, values)
        return y if bias is None or tuned.bias else y + bias.to(y.dtype)

    def _dense(self) -> torch.Tensor:
        """The dense weight, with a gradient of the values."""
        if self.moving_block:
            positions = self.block_pattern().positions()
        else:
            if self._positions is None:
                self._positions = self.positions().to(self.values.device)
            positions = self._positions
        zeros = torch.zeros(self.out_features * self.in_features, dtype=self.values.dtype, device=self.values.device)
        return zeros.index_copy(0, positions, self.values).view(self.out_features, self.in_features)

    def positions(self) -> torch.Tensor:
        """Of the values in the dense weight, row by row: int64, on the CPU."""
        return self._positions_of(self.row_offsets, self.column_indices)

    def _positions_of(self, offsets: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Raises SparsmithError for offsets and columns that are none of a weight of this shape."""
        counts, columns = offsets.diff().long(), columns.long()
        if offsets.shape != (self.out_features + 1,) or bool((counts < 0).any()) or int(counts.sum()) != columns.numel() or \
                (columns.numel() and (int(columns.min()) < 0 or int(columns.max()) >= self.in_features)):
            raise SparsmithError(f"row offsets and column indices are none of a weight [{self.out_features}, {self.in_features}]")
        return torch.arange(self.out_features, device=offsets.device).repeat_interleave(counts) * self.in_features + columns

    def _gather(self, weight: torch.Tensor) -> tuple[torch.Tensor, int]:
        """The values of a dense weight in the pattern, and the number of its nonzeros outside."""
        values = weight.reshape(-1)[self.positions().to(weight.device)]
        return values, int(torch.count_nonzero(weight)) - int(torch.count_nonzero(values))

    def outside(self, weight: torch.Tensor) -> int:
        """The number of nonzeros of a dense weight that are outside of the pattern."""
        return self._gather(weight)[1]

    def _outside(self, count: int) -> str:
        return f"{count} nonzeros of the weight are outside of the layer's pattern of {self.column_indices.numel()} elements: set " \
               "them to 0, or make the layer from this weight"

    def _has_pattern(self, pattern: Pattern) -> bool:
        return all(torch.equal(own, other.cpu().to(own.dtype))
                   for own, other in zip((self.row_offsets, self.column_indices), pattern, strict=True))

    def _apply(self, fn, recurse=True):
        return nn.Module._apply(self, fn, recurse)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "row_offsets"], destination[prefix + "column_indices"] = self.row_offsets, self.column_indices

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        name = prefix.removesuffix(".") or type(self).__name__
        weight = state_dict.pop(prefix + "weight", None)
        pattern = [state_dict.pop(prefix + key, None) for key in ("row_offsets", "column_indices")]
        if weight is not None:
            if weight.shape != (self.out_features, self.in_features):
                errors.append(f"size mismatch for {prefix}weight: it is {[*weight.shape]}, and the layer's is "
                              f"[{self.out_features}, {self.in_features}]")
                return
            state_dict[prefix + "values"], outside = self._gather(weight.detach())
            if outside and self.moving_block and int(torch.count_nonzero(weight)) == self.values.numel():
                self.update_pattern(weight != 0)
                state_dict[prefix + "values"], outside = self._gather(weight.detach())
            if outside:
                errors.append(f"{name}: {self._outside(outside)}")
                return
        elif None in pattern:
            missing += [prefix + key for key, tensor in zip(("row_offsets", "column_indices"), pattern, strict=True)
                        if tensor is None]
        elif self.moving_block and not self._has_pattern(pattern):
            try:
                self.update_pattern(self._positions_of(*pattern))
            except SparsmithError as error:
                errors.append(f"{name}: {error}")
                return
        elif not self._has_pattern(pattern):
            errors.append(f"{name}: the pattern of the state is another one than the layer's: make the model from the same "
                          "pruned weights, or load a dense weight")
            return
        nn.Module._load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors)

    def __setstate__(self, state):
        tuned = state["tuned"]
        if tuned is not None and not ops.known(tuned.plan) and os.path.exists(tuned.file):
            load(tuned.file, training=True, moving_block=state["moving_block"])  # a new process does not know the plan
        nn.Module.__setstate__(self, state)
        if tuned is None:
            return
        if ops.known(tuned.plan):
            self._know()
        else:
            self.detach()

    def extra_repr(self) -> str:
        elements = max(1, self.out_features * self.in_features)
        text = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, " \
               f"dtype={self.dtype}, values={self.values.dtype}, sparsity={1 - self.values.numel() / elements:.3f}"
        if self.tuned is None:
            return text + ", computes densely"
        own, dense = training_bytes(self.tuned, self.values.dtype)
        return text + f", training_bytes={own} of {dense}, choices={{{self.tuned.choices_text()}}}"
