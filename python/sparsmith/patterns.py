"""Patterns of sparse weights on a device: blocks and triplets.

A pattern is made of aligned square blocks, of side 1 for single elements. Its values stand row by row, as in CSR."""

from __future__ import annotations

import functools

import torch
from torch import nn


def blocked(weight: torch.Tensor, side: int) -> torch.Tensor:
    """A weight [rows, cols] as blocks [rows / side, cols / side, side, side]: a view where PyTorch has one. Raises ValueError
    for a shape that is no multiple.

    Example:
        >>> import torch
        >>> from sparsmith.patterns import blocked
        >>> blocked(torch.eye(4), 2).abs().sum((2, 3))  # norms
        tensor([[2., 0.],
                [0., 2.]])
    """
    rows, cols = weight.shape
    if side < 1 or rows % side or cols % side:
        raise ValueError(f"{rows} x {cols} do not divide into blocks of {side} x {side}")
    return weight.reshape(rows // side, side, cols // side, side).transpose(1, 2)


def unblocked(blocks: torch.Tensor) -> torch.Tensor:
    """The weight [rows, cols] of blocks [rows / side, cols / side, side, side]."""
    return blocks.transpose(1, 2).reshape(blocks.shape[0] * blocks.shape[2], blocks.shape[1] * blocks.shape[3])


def from_triplets(rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor,
                  shape: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The positions of elements at rows and columns in the dense weight, row by row, ascending, and their values [nnz] in this
    order. Raises ValueError for a place that is outside of the shape, or there twice."""
    if len(rows) and (int(torch.minimum(rows, columns).min()) < 0 or int(rows.max()) >= shape[0] or int(columns.max()) >= shape[1]):
        raise ValueError(f"a place is outside of {shape[0]} x {shape[1]}")
    positions, order = (rows.long() * shape[1] + columns.long()).sort()
    if bool((positions.diff() == 0).any()):
        raise ValueError("a place is there twice")
    return positions, values[order]


@functools.cache
def steps(count: int, device: torch.device) -> torch.Tensor:
    """0, 1, ...: few numbers, of which many patterns need the same."""
    return torch.arange(count, device=device)


class BlockPattern:
    """A pattern of blocks on a device.

    ``blocks``: int64, ascending: numbers in the grid of all blocks, row by row. ``side``: of a block. ``shape``: of the weight,
    a multiple. A run is a row of a block: ``side`` neighbouring values.
    """

    def __init__(self, blocks: torch.Tensor, side: int, shape: tuple[int, int]) -> None:
        self.blocks, self.side, self.shape = blocks, side, tuple(shape)
        self.grid = shape[0] // side, shape[1] // side
        self.nnz = len(blocks) * side * side

    @classmethod
    def of_mask(cls, mask: torch.Tensor, side: int) -> BlockPattern:
        """That of a mask [rows, cols]. Raises ValueError if it is not made of whole blocks."""
        held = mask if side == 1 else blocked(mask, side).any(3).any(2)
        pattern = cls(held.reshape(-1).nonzero().view(-1), side, mask.shape)
        if side > 1 and pattern.nnz != int(mask.sum()):
            raise ValueError(f"the mask is not made of blocks of {side} x {side}")
        return pattern

    @classmethod
    def of_positions(cls, positions: torch.Tensor, side: int, shape: tuple[int, int]) -> BlockPattern:
        """That of ascending positions in the dense weight. Raises ValueError for others."""
        end = shape[0] * shape[1] - 1
        if len(positions) and int(torch.cat([positions[:1], positions.diff() - 1, end - positions[-1:]]).min()) < 0:
            raise ValueError(f"positions do not ascend, or are not from 0 to {end}")
        if side == 1:
            return cls(positions, side, shape)
        mask = torch.zeros(shape, dtype=torch.bool, device=positions.device)
        mask.view(-1)[positions] = True
        return cls.of_mask(mask, side)

    @functools.cached_property
    def rows(self) -> torch.Tensor:
        """The row of each block in the grid."""
        return torch.div(self.blocks, self.grid[1], rounding_mode="floor")

    @functools.cached_property
    def columns(self) -> torch.Tensor:
        """The column of each block in the grid."""
        return self.blocks - self.rows * self.grid[1]

    @functools.cached_property
    def begins(self) -> torch.Tensor:
        """Where each row of the grid begins in ``blocks``, and the last one ends."""
        return torch.searchsorted(self.blocks, steps(self.grid[0] + 1, self.blocks.device) * self.grid[1])

    @functools.cached_property
    def runs_of_rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each row of the grid and each of its rows of the weight: where its runs begin among all; and of each row of the grid
        the number of blocks. [rows of blocks, side], [rows of blocks, 1]."""
        blocks = self.begins.diff()[:, None]
        return blocks * steps(self.side, self.blocks.device) + self.begins[:-1, None] * self.side, blocks

    @functools.cached_property
    def runs(self) -> torch.Tensor:
        """Where each run of each block is among all runs, row by row: [blocks, side]."""
        block = torch.arange(len(self.blocks), device=self.blocks.device)[:, None]
        if self.side == 1:
            return block
        return (self.runs_of_rows[0] - self.begins[:-1, None])[self.rows].add_(block)

    def segments(self) -> torch.Tensor:
        """Where the values of each row of the weight begin, and how many they are: int64 [rows, 2]."""
        begins, blocks = self.runs_of_rows
        return (torch.stack([begins, blocks.expand_as(begins)], 2) * self.side).view(-1, 2)

    def row_offsets(self) -> torch.Tensor:
        """Where the values of each row begin, and those of the last one end: int64 [rows + 1]."""
        return nn.functional.pad(self.segments()[:, 0], (0, 1), value=self.nnz)

    def column_indices(self) -> torch.Tensor:
        """The column of each value: int64 [nnz]."""
        if self.side == 1:
            return self.columns
        columns = (self.columns * self.side)[:, None] + steps(self.side, self.blocks.device)
        return self.in_order(columns[:, None].expand(-1, self.side, -1))

    def in_order(self, numbers: torch.Tensor) -> torch.Tensor:
        """Numbers of blocks, [blocks, side, side], in the order of values: [nnz]."""
        if self.side == 1:
            return numbers.reshape(-1)
        ordered = numbers.new_empty(len(self.blocks) * self.side, self.side)
        ordered[self.runs] = numbers
        return ordered.view(-1)

    def positions(self) -> torch.Tensor:
        """Of the values in the dense weight, row by row: int64 [nnz]."""
        if self.side == 1:
            return self.blocks
        step = steps(self.side, self.blocks.device)
        first = (self.rows * self.shape[1] + self.columns) * self.side
        return self.in_order(first[:, None, None] + (step * self.shape[1])[:, None] + step)

    def norms(self, values: torch.Tensor) -> torch.Tensor:
        """Of each block: the sum of squares; of single elements the magnitude."""
        if self.side == 1:
            return values.abs()
        return values.view(-1, self.side).float().square().sum(1)[self.runs].sum(1)

    def carry_to(self, new: BlockPattern) -> Carry:
        """What moves values to another pattern of as many blocks."""
        if len(self.blocks) == 0:
            return Carry(self.blocks, self.blocks.bool(), self.side)
        places = torch.searchsorted(self.blocks, new.blocks).clamp_(max=len(self.blocks) - 1)
        gone = self.blocks[places] != new.blocks
        if self.side == 1:
            return Carry(places, gone, 1)
        runs = torch.empty_like(self.runs).view(-1)
        runs[new.runs] = self.runs[places]
        of_runs = torch.empty_like(runs, dtype=torch.bool)
        of_runs[new.runs] = gone[:, None]
        return Carry(runs, of_runs, self.side)


def keeps(side: int) -> bool:
    """Whether a layer keeps what a pattern of such blocks has found out about itself, for the next update: where it is small."""
    return side >= 8


def held_bytes(nnz: int, side: int) -> int:
    """Of the pattern of a layer between updates: the numbers of blocks; of those that are kept rows, columns and runs, too."""
    return 8 * (3 + side if keeps(side) else 1) * (nnz // side**2)


class Carry:
    """Moves tensors [nnz] with a pattern: elements that stay keep theirs, new ones have 0."""

    def __init__(self, runs: torch.Tensor, new: torch.Tensor, side: int) -> None:
        # Of each run, ``side`` values: where it was, and whether it is new.
        self.runs, self.new, self.side = runs, new, side

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        """The moved tensor."""
        return tensor.view(-1, self.side)[self.runs].masked_fill_(self.new[:, None], 0).view(-1)


__all__ = ["BlockPattern", "Carry", "blocked", "from_triplets", "unblocked"]
