"""Tuned files, as ``sparsmith tune`` writes them."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import warnings

import torch

from sparsmith._library import OpenFile, SparsmithError

_OPERATORS = ("spmm", "spmm_transposed", "sddmm")
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclasses.dataclass(frozen=True)
class Choice:
    """The kernels for numbers of tokens up to ``tokens`` and above the previous choice's."""

    tokens: int
    config: str  # of the kernels; "dense" where the weight stays dense
    packing: str
    measured: bool  # False: the times are predicted
    median_us: float
    dense_us: float  # time of the dense layer; 0: not known
    reason: str

    @property
    def dense(self) -> bool:
        return self.packing == "dense"

    @property
    def family(self) -> str:
        """The kernels' family, the first word of ``config``."""
        return self.config.split(" ", 1)[0]

    @property
    def gain(self) -> float | None:
        """Dense time over time; None where a time is not known."""
        return self.dense_us / self.median_us if self.median_us > 0 and self.dense_us > 0 else None


@dataclasses.dataclass(frozen=True)
class Member:
    """A weight of a group: rows ``first_row`` to ``first_row + rows`` of it."""

    name: str
    first_row: int
    rows: int


@dataclasses.dataclass(frozen=True)
class TunedSplit:
    """How a weight is cut over ranks: this one has the units ``boundaries[rank]`` to ``boundaries[rank + 1]`` of each
    dimension that is cut. All layers of a split have the same units."""

    dimension: str  # "rows": output features; "columns": input features
    boundaries: tuple[int, ...]  # of all ranks, from 0 to the number of units
    whole: bool  # rows: all ranks' outputs are gathered; columns: x is whole, and each rank takes its part
    rank: int

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.boundaries) - 1

    def units_of(self, rank: int) -> int:
        """The number of units that a rank has."""
        return self.boundaries[rank + 1] - self.boundaries[rank]

    def whole_of(self, part: int) -> int:
        """The whole dimension, of which this rank has ``part`` features."""
        return part // self.units_of(self.rank) * self.boundaries[-1]

    def part_of(self, whole: int) -> slice:
        """This rank's features of a whole dimension."""
        unit = whole // self.boundaries[-1]
        return slice(self.boundaries[self.rank] * unit, self.boundaries[self.rank + 1] * unit)


@dataclasses.dataclass(frozen=True)
class PrunedPlan:
    """Kernels that prune any dense weight of a shape 2:4 along rows and columns, and multiply by it and by its transpose."""

    plan: int
    packed_bytes: int  # of both packings, on the GPU


@dataclasses.dataclass(frozen=True)
class TunedWeight:
    """A weight of a tuned file, [out_features, in_features], or a group of weights with one input."""

    name: str
    plan: int  # hash of kernels, launch plans and layout: all but the values
    shape: tuple[int, int]
    dtype: torch.dtype
    nnz: int
    packed_bytes: int  # on the GPU, all packings
    dense_bytes: int
    bias: bool  # the kernels add a bias
    activation: str  # of the kernels: "none", "relu", "gelu", "gelu_tanh" or "silu"
    residual: bool  # the kernels add a residual
    gated: bool  # the kernels multiply the activations of the first half of the rows by the second half
    members: tuple[Member, ...]
    operators: dict[str, tuple[Choice, ...]]  # "spmm", and of a file loaded for training "spmm_transposed" and "sddmm"
    file: str
    pruned: PrunedPlan | None = None  # None unless all products are fastest 2:4
    packings: list[dict] | None = None  # of a file loaded for training: where the arrays of each packing lie
    moving_block: int = 0  # as the file was loaded
    split: TunedSplit | None = None  # of a part of a weight, for a rank of tensor parallelism

    @property
    def whole_shape(self) -> tuple[int, int]:
        """The shape of the weight of all ranks together."""
        rows, cols = self.shape
        if self.split is None:
            return rows, cols
        return (self.split.whole_of(rows), cols) if self.split.dimension == "rows" else (rows, self.split.whole_of(cols))

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Of the product with x."""
        return self.operators["spmm"]

    @property
    def trains(self) -> bool:
        """It has the gradients of x and of the weight, too."""
        return {"spmm_transposed", "sddmm"} <= set(self.operators)

    @property
    def out_features(self) -> int:
        """Of the kernels: half of the rows where they are gated."""
        return self.shape[0] // 2 if self.gated else self.shape[0]

    @property
    def fused(self) -> str:
        """The activation in the kernels, as epilogues name it: "silu+gated", "gelu"; empty if there is none."""
        return "+".join([self.activation] * (self.activation != "none") + ["gated"] * self.gated)

    @property
    def sparsity(self) -> float:
        """The share of zeros."""
        return 1.0 - self.nnz / max(1, self.shape[0] * self.shape[1])

    @property
    def dense(self) -> bool:
        """No product with the weight is faster than the dense one within the memory bound."""
        return all(choice.dense for operator, choices in self.operators.items() if operator != "sddmm" for choice in choices)

    def choice_for(self, tokens: int, operator: str = "spmm") -> Choice:
        """The choice for a number of tokens; above the largest tuned number, the last one."""
        choices = self.operators[operator]
        return next((choice for choice in choices if tokens <= choice.tokens), choices[-1])

    def step_us(self, tokens: int) -> tuple[float, float] | None:
        """Times of all operators together, and of the dense ones; None where a time is not known."""
        chosen = [self.choice_for(tokens, operator) for operator in self.operators]
        if any(choice.gain is None for choice in chosen):
            return None
        return sum(choice.median_us for choice in chosen), sum(choice.dense_us for choice in chosen)

    def choices_text(self) -> str:
        """"1: slots, 8: panel (predicted)": numbers of tokens, and the kernels up to them; where the weight trains, those of
        the product, of the gradient of x and of the gradient of the weight."""
        def text(tokens: int) -> str:
            chosen = [self.choice_for(tokens, operator) for operator in self.operators]
            return "/".join(choice.family for choice in chosen) \
                + ("" if all(choice.measured for choice in chosen) else " (predicted)")

        return ", ".join(f"{choice.tokens}: {text(choice.tokens)}" for choice in self.choices)


class TunedFile:
    """A tuned file: ``file["layers.0.fc1.weight"]`` is a :class:`TunedWeight`. Made by :func:`load`.

    ``weights``: the weights by name, in the order of the file. ``device_name``: the GPU that it is tuned for; empty for
    predictions. ``architectures``: those that it has kernels for, such as "sm_90"; none if it was tuned without NVRTC.
    ``path``: absolute. ``training``, ``moving_block``: as it was loaded. ``rank``, ``ranks``: whose part of the model it is
    (0 and 1 without tensor parallelism). Raises KeyError for a weight that the file does not have.
    """

    def __init__(self, path: str | os.PathLike, trusted: bool = False, training: bool = False, moving_block: int = 0) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.training, self.moving_block = training, moving_block
        self._file = OpenFile(self.path, trusted, training, moving_block)
        described = self._file.description
        self.device_name: str = described["device_name"]
        self.architectures = tuple(described["architectures"])
        self.rank: int = described["rank"]
        self.ranks: int = described["ranks"]
        if training and self.ranks > 1:
            raise SparsmithError(f"{self.path} is for rank {self.rank} of {self.ranks}: parts of weights are constant, and do "
                                 "not train")
        self.weights: dict[str, TunedWeight] = {}
        self._index: dict[str, int] = {}
        for index, weight in enumerate(described["weights"]):
            self._index[weight["name"]] = index
            self.weights[weight["name"]] = TunedWeight(
                **{name: weight[name]
                   for name in ("name", "plan", "nnz", "packed_bytes", "dense_bytes", "bias", "activation", "residual",
                                "gated", "packings")},
                shape=tuple(weight["shape"]),
                dtype=_DTYPES[weight["dtype"]],
                members=tuple(Member(**member) for member in weight["members"]),
                operators={operator: tuple(Choice(**choice) for choice in weight["choices"][operator])
                           for operator in _OPERATORS if operator in weight["choices"]},
                pruned=weight["pruned"] and PrunedPlan(**weight["pruned"]),
                file=self.path,
                moving_block=moving_block,
                split=weight["split"] and TunedSplit(weight["split"]["dimension"], tuple(weight["split"]["boundaries"]),
                                                     weight["split"]["whole"], self.rank),
            )

    def __getitem__(self, name: str) -> TunedWeight:
        if name not in self.weights:
            for group in self.weights.values():
                if any(member.name == name for member in group.members):
                    raise KeyError(f"{self.path}: {name} is in the group {group.name}")
            some = ", ".join(list(self.weights)[:3])
            raise KeyError(f"{self.path} has no weight {name}; it has {some}" + (", ..." if len(self.weights) > 3 else ""))
        return self.weights[name]

    def packed(self, name: str) -> torch.Tensor:
        """The packed bytes of a weight: a uint8 tensor on the CPU, of ``packed_bytes`` elements. Of a file that was loaded for
        training they hold patterns, and values of no meaning."""
        return self._file.packed(self._index[self[name].name])

    def pattern(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Row offsets (int64, rows + 1) and column indices (int32, nnz) of a weight, on the CPU."""
        return self._file.pattern(self._index[self[name].name])

    def to_dense(self, name: str) -> torch.Tensor:
        """A weight as it was tuned: dense, on the CPU."""
        tuned = self[name]
        values = torch.empty(tuned.nnz)
        offsets, columns = self._file.pattern(self._index[name], values)
        rows = torch.arange(tuned.shape[0]).repeat_interleave(offsets.diff())
        return torch.zeros(tuned.shape, dtype=tuned.dtype).index_put_((rows, columns.long()), values.to(tuned.dtype))

    def runs_on(self, device: torch.device | str) -> bool:
        """Whether the file has kernels for a device. The CPU needs none."""
        if torch.device(device).type != "cuda":
            return True
        major, minor = torch.cuda.get_device_capability(device)
        return any(_runs(architecture, major, minor) for architecture in self.architectures)

    def __repr__(self) -> str:
        return f"TunedFile({self.path!r}, {len(self.weights)} weights, tuned for {self.device_name or 'no GPU'})"


def _runs(architecture: str, major: int, minor: int) -> bool:
    """Whether a kernel runs on a compute capability: "sm_90a" on 9.0 alone, "sm_80" on 8.0 and later 8.x."""
    number, own = int(architecture.removeprefix("sm_").rstrip("af")), 10 * major + minor
    return number == own if architecture.endswith("a") else number // 10 == major and number <= own


def missing_kernels(file: TunedFile, device: torch.device | str) -> str:
    """Why layers of a file stay dense on a device; empty if they run. Warns, once."""
    if file.runs_on(device):
        return ""
    major, minor = torch.cuda.get_device_capability(device)
    reason = f"the tuned file has no kernels for this GPU, sm_{major}{minor}: tune on this machine, with NVRTC " \
             "(pip install nvidia-cuda-nvrtc)"
    warn_dense(reason)
    return reason


@functools.cache
def warn_dense(reason: str) -> None:
    """Warns once in a process."""
    warnings.warn(f"sparsmith: layers stay dense: {reason}. `sparsmith doctor` shows what this machine has", stacklevel=2)


_loading = threading.Lock()


def load(path: str | os.PathLike, *, trusted: bool = False, training: bool = False, moving_block: int = 0) -> TunedFile:
    """Checks a tuned file and registers its plans, so that layers of the file can run in this process.

    ``trusted``: you made the file yourself. Hashes and plans are always checked; the contents of packed arrays are then
    taken as they are, which is faster. ``training``: for :class:`TrainableSparseLinear`. The packed bytes then hold the
    packings of all operators, and 4 bytes for each value of a packing that say where new values go. ``moving_block``: with
    ``training``, for layers whose patterns change: the side of the aligned blocks in which they do, 1 for single elements.

    Raises :class:`SparsmithError` for a missing, damaged or unfit file, such as one with kernels for constant patterns alone.
    """
    if moving_block < 0:
        raise SparsmithError(f"moving_block is {moving_block}: give the side of blocks, 1 for single elements, or 0")
    if moving_block and not training:
        raise SparsmithError("patterns move in training: load the file with training=True")
    with _loading:
        return TunedFile(path, trusted, training, moving_block)


__all__ = ["Choice", "Member", "PrunedPlan", "SparsmithError", "TunedFile", "TunedSplit", "TunedWeight", "load"]
