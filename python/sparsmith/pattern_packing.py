"""Packs patterns on their device: writes the arrays that formats/*.cc write on the host, for weights whose pattern moves."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from sparsmith._library import SparsmithError
from sparsmith.patterns import BlockPattern, blocked, keeps, steps

_NONE = -(1 << 31)  # in a gather: no value
_LARGEST = (1 << 31) - 1
_PLACES, _SOURCES, _MASKS = range(3)  # what the numbers of place_runs are


def _ceil(number, by: int):
    return -(-number // by)


def _exclusive(counts: torch.Tensor) -> torch.Tensor:
    """The sums of all numbers in front of each, and of all."""
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


class _Tiles:
    """The elements of a pattern in squares whose side divides 32, so that each is in one tile of a packing, and its rows in one
    word of a mask."""

    def __init__(self, pattern: BlockPattern) -> None:
        self.side = next(side for side in (32, 16, 8, 4, 2, 1) if pattern.side % side == 0)
        self.shape, self.device = pattern.shape, pattern.blocks.device
        self.rows, self.columns = pattern.rows, pattern.columns  # of squares
        side, parts = pattern.side, pattern.side // self.side
        values = (pattern.runs * side).to(torch.int32)[:, :, None]
        if side > 1:
            values = values + steps(side, self.device).to(torch.int32)
        if parts > 1:
            part = steps(parts, self.device)
            self.rows = ((self.rows * parts)[:, None, None] + part[:, None]).expand(-1, parts, parts).reshape(-1)
            self.columns = ((self.columns * parts)[:, None, None] + part).expand(-1, parts, parts).reshape(-1)
            values = values.view(-1, parts, self.side, parts, self.side).transpose(2, 3).reshape(-1, self.side, self.side)
        self.values = values  # the number of each: int32 [squares, side, side]

    def new(self, size: int, fill: int = 0) -> torch.Tensor:
        return torch.full((size,), fill, dtype=torch.int32, device=self.device)

    def grid(self, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The tile of each square, counted row by row, and which tiles hold one: [rows of tiles, columns of tiles]."""
        held = torch.zeros(_ceil(self.shape[0], rows), _ceil(self.shape[1], columns), dtype=torch.bool, device=self.device)
        row = torch.div(self.rows, rows // self.side, rounding_mode="floor")
        tile = row * held.shape[1] + torch.div(self.columns, columns // self.side, rounding_mode="floor")
        held.view(-1).index_fill_(0, tile, True)
        return tile, held

    def positions(self) -> torch.Tensor:
        """Of the rows of squares in the dense weight: [squares, side]."""
        first = (self.rows * self.shape[1] + self.columns) * self.side
        return first[:, None] + steps(self.side, self.device) * self.shape[1]

    def bits(self, first: torch.Tensor) -> torch.Tensor:
        """A word with as many bits as a square has columns, from a bit on."""
        return torch.bitwise_left_shift(((1 << self.side) - 1) & 0xFFFFFFFF, first).to(torch.int32)

    def transposed(self) -> _Tiles:
        return self._with(rows=self.columns, columns=self.rows, shape=self.shape[::-1])

    def in_halves(self, halves: torch.Tensor) -> _Tiles:
        """With 32 rows at a time in another order: halves[i] stands at place i."""
        place = torch.empty_like(halves)
        place[halves.long()] = steps(len(halves), self.device).to(halves.dtype)
        squares = 32 // self.side
        half = torch.div(self.rows, squares, rounding_mode="floor")
        return self._with(rows=place[half].to(self.rows.dtype) * squares + self.rows % squares,
                          shape=(32 * len(halves), self.shape[1]))

    def _with(self, **others) -> _Tiles:
        other = object.__new__(_Tiles)
        other.__dict__ = {**self.__dict__, **others}
        return other


@functools.cache
def _columns(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    """The columns of the tiles of a grid, row by row."""
    return torch.arange(columns, dtype=torch.int32, device=device).repeat(rows)


# Each packer returns pairs of a number and its bound, and what makes the arrays of the packing: few of them are there at once. An
# array of values comes as the place of each element, [squares, side, side], and the facts of the packing.


@functools.cache
def _line_places(width: int, side: int, transposed: bool, device: torch.device) -> torch.Tensor:
    """The places of the elements of a square in the block of 64 lines in front of the first one, for each place of the square:
    formats/bsr_layout.h."""
    row, column, chunks = torch.arange(64)[:, None], torch.arange(width), width // 8
    chunk = torch.div(column, 8, rounding_mode="floor") ^ torch.div(row * chunks, 8, rounding_mode="floor") % chunks
    squares = blocked((row - 64) * width + chunk * 8 + column % 8, side).reshape(-1, side, side)
    return (squares.transpose(1, 2) if transposed else squares).contiguous().to(device)


def _pack_lines(packing: str, facts: dict[str, int], of: _Tiles):
    """formats/bsr_layout.h. Rows of blocks are ordered by their lengths alone."""
    width, height = int(packing.removesuffix("_transposed")[-2:]), 64
    tile, held = of.grid(height, width)
    number = held.view(-1).cumsum(0)  # from 1

    def arrays():
        columns = of.new(facts["blocks"] + 1)  # the first one takes what is not held
        columns[(number * held.view(-1)).clamp_(max=facts["blocks"])] = _columns(*held.shape, of.device)
        down, across = height // of.side, width // of.side
        square = of.rows % down * across + of.columns % across
        place = _line_places(width, of.side, packing.endswith("_transposed"), of.device)[square]
        place += (number[tile] * (height * width))[:, None, None]
        made = {"row_blocks": number.view_as(held)[:, -1], "block_columns": columns[1:],  # the first row begins at 0
                "row_order": held.sum(1).argsort(descending=True, stable=True), "place_runs": (place, facts)}
        if facts["place_kind"] == _PLACES:
            made["blocks"] = 0x8000 - (1 << 16)  # nothing
        return made

    return [(number[-1], facts["blocks"])], arrays


def _pack_tile_masks(packing: str, facts: dict[str, int], of: _Tiles):
    """formats/tile_masks_layout.h."""
    width, row_tiles, group_columns = map(int, re.fullmatch(r"tile_masks_c(\d+)_r(\d+)_g(\d+)", packing).groups())
    height, tiles_of_unit, units_of_group = 64 * row_tiles, 64 // width, group_columns // 64
    tile, held = of.grid(height, width)
    panels = held.shape[0]
    tiles = held.sum(1)  # of a panel
    units = _ceil(tiles, tiles_of_unit)[:, None]
    groups = _ceil(units, units_of_group).clamp_(min=1)
    # Groups in the order of their lengths, numbers and panels; those that are not there come last.
    number = steps(max(1, _ceil(_ceil(held.shape[1], tiles_of_unit), units_of_group)), of.device)
    firsts = number * units // groups
    length = torch.where(number < groups, (number + 1) * units // groups - firsts, -1)
    key = (units_of_group - length) * len(number) + number
    order = (key * panels + steps(panels, of.device)[:, None]).view(-1).argsort()
    rank = torch.empty_like(order)
    rank[order] = steps(len(order), of.device)
    begins = _exclusive(length.view(-1)[order].clamp_(min=0) * tiles_of_unit)
    capacity = facts["groups"]
    group_tiles = begins[-1].expand(capacity + 1).clone()
    shared = min(capacity + 1, len(begins))
    group_tiles[:shared] = begins[:shared]
    group_panels = of.new(capacity)
    shared = min(capacity, len(order))
    there = steps(shared, of.device) < groups.sum()
    group_panels[:shared] = torch.where(there, torch.div(order[:shared], len(number), rounding_mode="floor"), 0)
    # Of each tile: its number in the panel, its group, its place.
    in_panel = held.cumsum(1) - 1
    unit = in_panel if tiles_of_unit == 1 else torch.div(in_panel, tiles_of_unit, rounding_mode="floor")
    group = (((unit + 1) * groups - 1) // units.clamp(min=1)).clamp_(0, len(number) - 1)
    place = begins[rank.view(panels, -1).gather(1, group)] + in_panel - firsts.gather(1, group) * tiles_of_unit
    dump = facts["tiles"]
    place = torch.where(held, place, dump).clamp_(max=dump)
    column = _columns(*held.shape, of.device)
    columns = of.new(dump + 1)
    columns[place.view(-1)] = column
    if tiles_of_unit == 2:  # a panel's odd last tile has a neighbour that holds nothing
        last = held & (in_panel == tiles[:, None] - 1) & (in_panel % 2 == 0)
        columns[torch.where(last, place + 1, dump).clamp_(max=dump).view(-1)] = column
    row = (place.view(-1)[tile] * height + of.rows * of.side % height)[:, None] + steps(of.side, of.device)
    words, bit = width // 32, of.columns * of.side % width
    masks = of.new((dump + 1) * height * words)
    word = row if words == 1 else row * words + torch.div(bit, 32, rounding_mode="floor")[:, None]
    masks.scatter_add_(0, word.view(-1), of.bits(bit % 32)[:, None].expand_as(row).reshape(-1))
    begin = of.new((dump + 1) * height, _LARGEST)
    begin.scatter_reduce_(0, row.view(-1), of.values[:, :, 0].reshape(-1), "amin")
    begin.masked_fill_(begin == _LARGEST, 0)
    arrays = {"group_panels": group_panels, "group_tiles": group_tiles, "columns": columns[:-1],
              "masks": masks[:-height * words], "firsts": begin[:-height]}
    return [(begins[-1], dump), (groups.sum(), capacity)], lambda: arrays


def _write_runs(place: torch.Tensor, facts: dict[str, int], of: _Tiles, runs: torch.Tensor) -> None:
    """Into the array place_runs (formats/places.h)."""
    if facts["place_kind"] == _PLACES:
        runs[of.values] = place.to(torch.int32)
    else:
        runs.fill_(_NONE)[place] = of.values


def _masks(facts: dict[str, int], of: _Tiles) -> torch.Tensor:
    """The same of a dense array: of each 64 elements the first value, and in two words which there are."""
    groups, position = _ceil(facts["places"], 64), of.positions().view(-1)
    bits = of.bits(position % 32)
    words = of.new(2 * groups).scatter_add_(0, torch.div(position, 32, rounding_mode="floor"), bits).view(-1, 2)
    counts = of.new(groups).scatter_add_(0, torch.div(position, 64, rounding_mode="floor"), of.new(1, of.side).expand_as(bits))
    firsts = counts.cumsum(0, dtype=torch.int32) - counts
    return torch.cat([firsts[:, None], words], 1).view(-1)


def _arrays(name: str, facts: dict[str, int], of: _Tiles, pattern: BlockPattern):
    """Of a packing, as packers return them."""
    if name.startswith("csr"):
        return [], lambda: {"segments": pattern.segments().view(-1), "columns": pattern.column_indices()}
    if name.startswith("tile_masks"):
        return _pack_tile_masks(name, facts, of)
    if name != "dense":
        return _pack_lines(name, facts, of)
    if facts["place_kind"] == _MASKS:
        return [], lambda: {"place_runs": _masks(facts, of)}
    return [], lambda: {"place_runs": pattern.positions(), "values": 0}


class _Written:
    """The arrays of a pattern on their way into the packed bytes of a weight."""

    def __init__(self, packed: torch.Tensor, packings: Iterable[dict], pattern: BlockPattern) -> None:
        of, self.bounds, self.arrays = _Tiles(pattern), [], []
        used = []
        for packing in packings:
            turned = of.transposed() if packing["packing"].endswith("_transposed") else of
            if "half_rows" in packing["arrays"]:
                turned = turned.in_halves(_bytes_of(packed, packing["arrays"]["half_rows"]).view(torch.int32))
            bounded, arrays = _arrays(packing["packing"], packing["facts"], turned, pattern)
            used += [number for number, _ in bounded]
            self.bounds += [(capacity, packing["packing"]) for _, capacity in bounded]
            self.arrays.append((packing["arrays"], arrays, turned))
        self.used = torch.stack(used) if used and len(pattern.blocks) else None

    def put(self, packed: torch.Tensor, itemsize: int) -> None:
        for places, arrays, turned in self.arrays:
            _put(packed, itemsize, places, arrays(), turned)


def _bytes_of(packed: torch.Tensor, array: dict) -> torch.Tensor:
    return packed[array["offset"]:array["offset"] + array["bytes"]]


def _put(packed: torch.Tensor, itemsize: int, places: dict[str, dict], arrays: dict, of: _Tiles) -> None:
    """Writes the arrays of a packing to their places."""
    for name, value in arrays.items():
        place = places.get(name)
        if place is None or place["bytes"] == 0:
            continue
        to = _bytes_of(packed, place)
        if isinstance(value, int):
            (to.view(torch.int16) if itemsize == 2 else to.view(torch.int32)).fill_(value)
        elif isinstance(value, tuple):
            _write_runs(*value, of, to.view(torch.int32))
        else:
            # Whole numbers keep their lowest bits. Those at the begin that no pattern changes are left out.
            to.view(torch.int16 if place["bytes"] == 2 * value.numel() else torch.int32)[-value.numel():].copy_(value)


def _check_room(used: torch.Tensor | None, bounds: list[tuple[int, str]]) -> None:
    for tiles, (capacity, name) in zip(used.tolist() if used is not None else [], bounds, strict=False):
        if tiles > capacity:
            raise SparsmithError(f"the pattern takes {tiles} tiles of packing {name}, which has room for {capacity}: tune again "
                                 "for a weight of this pattern")


def write_order(packed: torch.Tensor, packings: Iterable[dict]) -> None:
    """Writes the orders of rows that no pattern changes: those of the weight that the plan was made for."""
    for packing in packings:
        if "half_rows" in packing:
            order = torch.tensor(packing["half_rows"], dtype=torch.int32)
            _bytes_of(packed, packing["arrays"]["half_rows"]).view(torch.int32).copy_(order)


@functools.cache
def _pool(device: torch.device):
    """Of the memory of all graphs of a device: no two run at once, and none needs what another one has left."""
    return torch.cuda.graph_pool_handle()


class _Graphs:
    """CUDA graphs that write a pattern of as many blocks: hundreds of small kernels, which the host would start one by one."""

    def __init__(self, packed: torch.Tensor, packings: Iterable[dict], itemsize: int, pattern: BlockPattern) -> None:
        self.blocks = pattern.blocks.clone()
        self.find, self.put = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        options = {"pool": _pool(packed.device), "capture_error_mode": "thread_local"}
        with torch.cuda.device(packed.device), torch.cuda.graph(self.find, **options):
            written = _Written(packed, packings, BlockPattern(self.blocks, pattern.side, pattern.shape))
        self.used, self.bounds = written.used, written.bounds
        with torch.cuda.device(packed.device), torch.cuda.graph(self.put, **options):
            written.put(packed, itemsize)

    def write(self, pattern: BlockPattern) -> None:
        self.blocks.copy_(pattern.blocks)
        self.find.replay()
        _check_room(self.used, self.bounds)
        self.put.replay()


_graphs: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # by the packed bytes; None: written once


def write_pattern(packed: torch.Tensor, packings: Iterable[dict], itemsize: int, pattern: BlockPattern) -> None:
    """Writes the arrays of a pattern into the packed bytes of a weight, on their device. ``packings``: as the plan describes
    them, and with write_order() done. ``itemsize``: of a value. Raises SparsmithError, with nothing written, where they have no
    room for the pattern.

    Patterns of large blocks (``keeps``) are written by CUDA graphs from the third time on."""
    graphs = _graphs.get(packed)
    if graphs is not None:
        graphs.write(pattern)
        return
    written = _Written(packed, packings, pattern)
    _check_room(written.used, written.bounds)
    if packed.is_cuda and keeps(pattern.side) and len(pattern.blocks):
        # The first time has made all that several patterns share (steps): none of it is made while a graph is captured.
        _graphs[packed] = _Graphs(packed, packings, itemsize, pattern) if packed in _graphs else None
    written.put(packed, itemsize)


__all__ = ["write_order", "write_pattern"]
