"""Patterns of sparse weights on a device: blocks, triplets, and the arrays of packings.

A pattern is the positions of its elements in the dense weight, row by row: int64, ascending, on any device."""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch
from torch import nn

from sparsmith._library import SparsmithError

_NONE = -(1 << 31)  # in a gather: no value
_PLACES, _SOURCES, _MASKS = range(3)  # what the numbers of place_runs are


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


def from_mask(mask: torch.Tensor, side: int = 1) -> torch.Tensor:
    """The pattern of a mask [rows, cols]; with ``side``, of a mask of blocks [rows / side, cols / side]."""
    # Of each row and block: where it begins.
    begins = mask.repeat_interleave(side, 0).reshape(-1).nonzero() * side
    return begins.view(-1) if side == 1 else (begins + torch.arange(side, device=mask.device)).view(-1)


def from_triplets(rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor,
                  shape: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The pattern of elements at rows and columns, and their values [nnz] in its order. Raises ValueError for a place that is
    outside of the shape, or there twice."""
    if len(rows) and (int(torch.minimum(rows, columns).min()) < 0 or int(rows.max()) >= shape[0] or int(columns.max()) >= shape[1]):
        raise ValueError(f"a place is outside of {shape[0]} x {shape[1]}")
    positions, order = (rows.long() * shape[1] + columns.long()).sort()
    if bool((positions.diff() == 0).any()):
        raise ValueError("a place is there twice")
    return positions, values[order]


def row_offsets(positions: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """Where each row of a pattern begins, and the last one ends: int64 [rows + 1]."""
    begins = torch.arange(shape[0] + 1, device=positions.device) * shape[1]
    return torch.searchsorted(positions, begins)


def carried(old: torch.Tensor, new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each element of a new pattern is in the old one, and whether it is there."""
    if len(old) == 0:
        return torch.zeros_like(new), torch.zeros_like(new, dtype=torch.bool)
    places = torch.searchsorted(old, new).clamp_(max=len(old) - 1)
    return places, old[places] == new


class _Elements:
    """The elements of a pattern, as the packer of a packing sees them."""

    def __init__(self, positions: torch.Tensor, shape: tuple[int, int], transposed: bool) -> None:
        self.positions, self.count = positions, len(positions)
        self.rows = torch.div(positions, shape[1], rounding_mode="floor")
        self.columns = positions - self.rows * shape[1]
        self.shape = shape
        if transposed:
            self.rows, self.columns, self.shape = self.columns, self.rows, (shape[1], shape[0])

    def new(self, size: int, fill: int = 0) -> torch.Tensor:
        return torch.full((size,), fill, dtype=torch.int32, device=self.positions.device)

    def numbers(self) -> torch.Tensor:
        return torch.arange(self.count, dtype=torch.int32, device=self.positions.device)

    def tiles(self, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The tile of each element, counted row by row, and which tiles hold one: [rows of tiles, columns of tiles]."""
        grid = _ceil(self.shape[0], rows), _ceil(self.shape[1], columns)
        tile = torch.div(self.rows, rows, rounding_mode="floor") * grid[1] + torch.div(self.columns, columns, rounding_mode="floor")
        held = torch.zeros(grid, dtype=torch.bool, device=tile.device)
        held.view(-1)[tile] = True
        return tile, held


def _ceil(number, by: int):
    return -(-number // by)


def _exclusive(counts: torch.Tensor) -> torch.Tensor:
    """The sums of all numbers in front of each, and of all."""
    return nn.functional.pad(counts.cumsum(0), (1, 0))


# Each packer returns the arrays of a packing, the place of each element or None, and pairs of a number and its bound.


def _pack_lines(packing: str, facts: dict[str, int], of: _Elements):
    """formats/bsr_layout.h. Rows of blocks are ordered by their lengths alone."""
    width, height = int(packing[-2:]), 64
    tile, held = of.tiles(height, width)
    number = held.view(-1).cumsum(0) - 1
    columns = of.new(facts["blocks"] + 1)  # the last one takes what is not held
    places = torch.where(held.view(-1), number, facts["blocks"]).clamp_(max=facts["blocks"])
    columns[places] = torch.arange(held.shape[1], dtype=torch.int32, device=columns.device).repeat(held.shape[0])
    lengths = held.sum(1)
    row, column, chunks = of.rows % height, of.columns % width, width // 8
    chunk = torch.div(column, 8, rounding_mode="floor") ^ torch.div(row * chunks, 8, rounding_mode="floor") % chunks
    place = number[tile] * (height * width) + row * width + chunk * 8 + column % 8
    arrays = {"row_blocks": _exclusive(lengths), "block_columns": columns[:-1],
              "row_order": lengths.argsort(descending=True, stable=True)}
    return arrays, place, [(lengths.sum(), facts["blocks"])]


def _pack_tile_masks(packing: str, facts: dict[str, int], of: _Elements):
    """formats/tile_masks_layout.h."""
    width, row_tiles, group_columns = map(int, re.fullmatch(r"tile_masks_c(\d+)_r(\d+)_g(\d+)", packing).groups())
    height, tiles_of_unit, units_of_group = 64 * row_tiles, 64 // width, group_columns // 64
    tile, held = of.tiles(height, width)
    panels, device = held.shape[0], held.device
    units = _ceil(held.sum(1), tiles_of_unit)
    groups = _ceil(units, units_of_group).clamp_(min=1)  # of a panel
    # Groups in the order of their lengths, numbers and panels; those that are not there come last.
    number = torch.arange(max(1, _ceil(_ceil(held.shape[1], tiles_of_unit), units_of_group)), device=device)
    first_unit = number * units[:, None] // groups[:, None]
    length = (number + 1) * units[:, None] // groups[:, None] - first_unit
    length = torch.where(number < groups[:, None], length, -1)
    key = ((units_of_group - length) * len(number) + number) * panels + torch.arange(panels, device=device)[:, None]
    order = key.view(-1).argsort()
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=device)
    begins = _exclusive(length.view(-1)[order].clamp_(min=0) * tiles_of_unit)
    capacity = facts["groups"]
    group_tiles = begins[-1].expand(capacity + 1).clone()
    shared = min(capacity + 1, len(begins))
    group_tiles[:shared] = begins[:shared]
    group_panels = of.new(capacity)
    shared = min(capacity, len(order))
    there = torch.arange(shared, device=device) < groups.sum()
    group_panels[:shared] = torch.where(there, torch.div(order[:shared], len(number), rounding_mode="floor"), 0)
    # Of each tile: its number in the panel, its group, its place.
    in_panel = held.cumsum(1) - 1
    group = ((torch.div(in_panel, tiles_of_unit, rounding_mode="floor") + 1) * groups[:, None] - 1) // units[:, None].clamp(min=1)
    group = group.clamp_(0, len(number) - 1)
    place = begins[rank.view(panels, -1).gather(1, group)] + in_panel - first_unit.gather(1, group) * tiles_of_unit
    dump = facts["tiles"]
    place = torch.where(held, place, dump).clamp_(max=dump)
    column = torch.arange(held.shape[1], dtype=torch.int32, device=device).expand_as(held)
    columns = of.new(dump + 1)
    columns[place.view(-1)] = column.reshape(-1)
    if tiles_of_unit == 2:  # a panel's odd last tile has a neighbour that holds nothing
        last = held & (in_panel == held.sum(1, keepdim=True) - 1) & (in_panel % 2 == 0)
        columns[torch.where(last, place + 1, dump).clamp_(max=dump).view(-1)] = column.reshape(-1)
    row = place.view(-1)[tile] * height + of.rows % height
    words, column = width // 32, of.columns % width
    masks = of.new((dump + 1) * height * words)
    bit = torch.bitwise_left_shift(of.new(1, 1), (column % 32).to(torch.int32))
    masks.scatter_add_(0, row * words + torch.div(column, 32, rounding_mode="floor"), bit)
    firsts = of.new((dump + 1) * height, (1 << 31) - 1)
    firsts.scatter_reduce_(0, row, of.numbers(), "amin")
    firsts.masked_fill_(firsts == (1 << 31) - 1, 0)
    arrays = {"group_panels": group_panels, "group_tiles": group_tiles, "columns": columns[:-1],
              "masks": masks[:-height * words], "firsts": firsts[:-height]}
    return arrays, None, [(units.sum() * tiles_of_unit, dump), (groups.sum(), capacity)]


def _pack_csr(_packing: str, _facts: dict[str, int], of: _Elements):
    """formats/csr_layout.h: a segment a row."""
    begins = row_offsets(of.positions, of.shape)
    return {"segments": torch.stack([begins[:-1], begins.diff()], 1).view(-1), "columns": of.columns}, None, []


def _pack_dense(_packing: str, _facts: dict[str, int], of: _Elements):
    return {}, of.positions, []


_PACKERS = {"bsr_lines": _pack_lines, "tile_masks": _pack_tile_masks, "csr": _pack_csr, "dense": _pack_dense}


def _runs(facts: dict[str, int], place: torch.Tensor, of: _Elements) -> torch.Tensor:
    """The array place_runs (formats/places.h)."""
    if facts["place_kind"] == _PLACES:
        return place
    if facts["place_kind"] == _SOURCES:
        sources = of.new(facts["places"], _NONE)
        sources[place] = of.numbers()
        return sources
    groups = _ceil(facts["places"], 64)
    words = of.new(2 * groups)
    bit = torch.bitwise_left_shift(of.new(1, 1), (place % 32).to(torch.int32))
    words.scatter_add_(0, torch.div(place, 32, rounding_mode="floor"), bit)
    firsts = torch.searchsorted(place, torch.arange(groups, device=place.device) * 64)
    return torch.cat([firsts.to(torch.int32)[:, None], words.view(-1, 2)], 1).view(-1)


def write_pattern(packed: torch.Tensor, packings: Iterable[dict], shape: tuple[int, int], itemsize: int,
                  positions: torch.Tensor) -> None:
    """Writes the arrays of a pattern into the packed bytes of a weight, on their device. ``packings``: as the plan describes
    them. Raises SparsmithError, with nothing written, where they have no room for the pattern."""
    writes, bounds = [], []
    plain = _Elements(positions, shape, False)
    for packing in packings:
        name, facts, arrays = packing["packing"], packing["facts"], dict(packing["arrays"])
        of = _Elements(positions, shape, True) if name.endswith("_transposed") else plain
        name = name.removesuffix("_transposed")
        pack = next(pack for prefix, pack in _PACKERS.items() if name.startswith(prefix))
        made, place, bounded = pack(name, facts, of)
        bounds += [(*bound, packing["packing"]) for bound in bounded]
        if "place_runs" in arrays:
            made["place_runs"] = (facts, place, of)
        writes += [(arrays[key], value) for key, value in made.items() if key in arrays]
        if "place_runs" in arrays and facts["place_kind"] == _PLACES:
            for key in ("blocks", "values"):  # hold nothing between values
                if key in arrays:
                    writes.append((arrays[key], 0x8000 - (1 << 16) if key == "blocks" else 0))
    for used, (_, capacity, name) in zip(torch.stack([bound[0] for bound in bounds]).tolist() if bounds else [], bounds, strict=True):
        if used > capacity:
            raise SparsmithError(f"the pattern takes {used} tiles of packing {name}, which has room for {capacity}: tune again "
                                 "for a weight of this pattern")
    for array, value in writes:
        if array["bytes"] == 0:
            continue
        to = packed[array["offset"]:array["offset"] + array["bytes"]]
        if isinstance(value, int):
            (to.view(torch.int16) if itemsize == 2 else to.view(torch.int32)).fill_(value)
            continue
        value = _runs(*value) if isinstance(value, tuple) else value
        # Whole numbers keep their lowest bits.
        to.view(torch.int16 if array["bytes"] == 2 * value.numel() else torch.int32).copy_(value)


__all__ = ["blocked", "carried", "from_mask", "from_triplets", "row_offsets", "unblocked"]
