#include "formats/tile_masks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/packed_reader.h"
#include "formats/stored_value.h"
#include "formats/tile_masks_layout.h"

namespace sparsmith {
namespace {

using tile_masks::kTileRows;
using tile_masks::kUnitColumns;
using tile_masks::kWordColumns;

constexpr std::int64_t kLimit = std::int64_t{1} << 31;  // of nonzeros, and of tiles

// How a weight is cut up.
struct Grid {
  Grid(const TileMasksPacking& packing, std::int64_t weight_rows, std::int64_t weight_cols)
      : columns(packing.columns),
        panel_rows(std::int64_t{packing.row_tiles} * kTileRows),
        panels(ceil_div(weight_rows, panel_rows)),
        tile_columns(ceil_div(weight_cols, columns)),
        unit_tiles(kUnitColumns / packing.columns),
        group_units(packing.group_columns / kUnitColumns),
        words(packing.columns / kWordColumns) {}

  std::int64_t columns;  // of a tile
  std::int64_t panel_rows;
  std::int64_t panels;
  std::int64_t tile_columns;
  std::int64_t unit_tiles;
  std::int64_t group_units;  // at most
  std::int64_t words;        // of a row of a tile
};

Status check(const TileMasksPacking& packing, std::int64_t rows, std::int64_t cols, DataType /*type*/) {
  const Grid grid(packing, rows, cols);
  if (grid.panels * (grid.tile_columns + grid.unit_tiles) < kLimit) return {};
  return invalid_argument(fmt::format("tile_masks: {} x {} exceeds 32-bit indices", rows, cols));
}

// All arrays.
struct Structure {
  std::vector<std::uint32_t> group_panels, group_tiles, columns, masks, firsts;
};

// The columns of tiles in which the panel holds an element, ascending.
std::vector<std::uint32_t> tiles_of(const SparsityPattern& pattern, const Grid& grid, std::int64_t panel) {
  std::vector<bool> holds(grid.tile_columns);
  const std::int64_t end_row = std::min(pattern.rows, (panel + 1) * grid.panel_rows);
  for (std::int64_t i = pattern.row_offsets[panel * grid.panel_rows]; i < pattern.row_offsets[end_row]; ++i)
    holds[pattern.column_indices[i] / grid.columns] = true;
  std::vector<std::uint32_t> tiles;
  for (std::int64_t tile = 0; tile < grid.tile_columns; ++tile)
    if (holds[tile]) tiles.push_back(static_cast<std::uint32_t>(tile));
  return tiles;
}

// A group before it has its place: tiles [begin, end) of its panel, and one that holds nothing where they are odd.
struct DrawnGroup {
  std::int64_t units;
  std::int64_t number;  // in its panel
  std::int64_t panel;
  std::int64_t begin;
  std::int64_t end;
};

std::vector<DrawnGroup> groups_of(const std::vector<std::vector<std::uint32_t>>& tiles, const Grid& grid) {
  std::vector<DrawnGroup> groups;
  for (std::int64_t panel = 0; panel < grid.panels; ++panel) {
    const std::int64_t units = ceil_div(std::ssize(tiles[panel]), grid.unit_tiles);
    const std::int64_t count = std::max<std::int64_t>(1, ceil_div(units, grid.group_units));
    for (std::int64_t g = 0; g < count; ++g) {
      const std::int64_t first = g * units / count;
      const std::int64_t last = (g + 1) * units / count;
      groups.push_back({last - first, g, panel, first * grid.unit_tiles,
                        std::min(std::ssize(tiles[panel]), last * grid.unit_tiles)});
    }
  }
  std::ranges::sort(groups, {},
                    [](const DrawnGroup& group) { return std::tuple(-group.units, group.number, group.panel); });
  return groups;
}

Structure structure_of(const SparsityPattern& pattern, const Grid& grid) {
  std::vector<std::vector<std::uint32_t>> tiles(grid.panels);
  parallel_each(grid.panels, [&](std::int64_t panel) { tiles[panel] = tiles_of(pattern, grid, panel); }, 4);
  const std::vector<DrawnGroup> groups = groups_of(tiles, grid);

  Structure all;
  // Where each tile of each panel is.
  std::vector<std::vector<std::uint32_t>> places(grid.panels);
  for (std::int64_t panel = 0; panel < grid.panels; ++panel) places[panel].resize(tiles[panel].size());
  for (const DrawnGroup& group : groups) {
    const auto first = static_cast<std::uint32_t>(all.columns.size());
    all.group_panels.push_back(static_cast<std::uint32_t>(group.panel));
    all.group_tiles.push_back(first);
    const auto begin = tiles[group.panel].begin();
    all.columns.insert(all.columns.end(), begin + group.begin, begin + group.end);
    std::iota(places[group.panel].begin() + group.begin, places[group.panel].begin() + group.end, first);
    if (group.units > 0) all.columns.resize(first + group.units * grid.unit_tiles, all.columns.back());
  }
  all.group_tiles.push_back(static_cast<std::uint32_t>(all.columns.size()));

  all.masks.resize(all.columns.size() * grid.panel_rows * grid.words);
  all.firsts.resize(all.columns.size() * grid.panel_rows);
  const auto fill_panel = [&](std::int64_t panel) {
    const std::int64_t first_row = panel * grid.panel_rows;
    for (std::int64_t row = first_row; row < std::min(pattern.rows, first_row + grid.panel_rows); ++row) {
      std::int64_t tile = 0;   // of the panel; columns ascend in a row, too
      std::int64_t last = -1;  // the tile of the element before
      for (std::int64_t i = pattern.row_offsets[row]; i < pattern.row_offsets[row + 1]; ++i) {
        const std::uint32_t column = pattern.column_indices[i];
        while (tiles[panel][tile] < column / grid.columns) ++tile;
        const std::int64_t at = places[panel][tile] * grid.panel_rows + row - first_row;
        if (tile != last) all.firsts[at] = static_cast<std::uint32_t>(i);
        last = tile;
        all.masks[at * grid.words + column % grid.columns / kWordColumns] |= 1U << column % kWordColumns;
      }
    }
  };
  parallel_each(grid.panels, fill_panel, 4);
  return all;
}

Status pack_weight(const CsrMatrix& matrix, const TileMasksPacking& packing, DataType /*type*/, PackedWeight& packed) {
  if (matrix.nnz() >= kLimit)
    return invalid_argument(fmt::format("tile_masks: {} nonzeros exceed 32-bit places", matrix.nnz()));
  const Structure all = structure_of(matrix, Grid(packing, matrix.rows, matrix.cols));
  packed.facts = {
      {"groups", std::ssize(all.group_panels)}, {"tiles", std::ssize(all.columns)}, {"nonzeros", matrix.nnz()}};
  const auto add = [&](const char* name, const std::vector<std::uint32_t>& numbers) {
    packed.arrays.push_back(array_of(name, DataType::kUint32, numbers));
  };
  add("group_panels", all.group_panels);
  add("group_tiles", all.group_tiles);
  add("columns", all.columns);
  add("masks", all.masks);
  add("firsts", all.firsts);
  return {};
}

class TileMasksReader : public PackedReader {
 public:
  TileMasksReader(const PackedView& view, const TileMasksPacking& packing, PackedParts& parts)
      : grid_(packing, view.rows, view.cols), one_(half_bits(1.0F, view.value_type)), spare_(view.spare) {
    groups_ = parts.fact("groups", 0, kLimit - 1);
    tiles_ = parts.fact("tiles", 0, kLimit - 1);
    nonzeros_ = parts.fact("nonzeros", 0, kLimit - 1);
    const auto array = [&](const char* name, std::int64_t count) {
      return parts.array<std::uint32_t>(name, DataType::kUint32, count);
    };
    group_panels_ = array("group_panels", groups_);
    group_tiles_ = array("group_tiles", groups_ + 1);
    columns_ = array("columns", tiles_);
    masks_ = array("masks", tiles_ * grid_.panel_rows * grid_.words);
    firsts_ = array("firsts", tiles_ * grid_.panel_rows);
    parts.require(grid_.panels <= groups_, fmt::format("{} groups for {} panels", groups_, grid_.panels));
  }

  Status check_bounds(int threads) override {
    const std::int64_t used = group_tiles_[groups_];
    if (group_tiles_[0] != 0 || (spare_ ? used > tiles_ : used != tiles_))
      return invalid_input(fmt::format("group_tiles does not share out {} tiles", tiles_));
    panel_groups_.resize(grid_.panels);
    for (std::int64_t group = 0; group < groups_; ++group) {
      const std::int64_t count = std::int64_t{group_tiles_[group + 1]} - group_tiles_[group];
      if (count < 0 || count > grid_.group_units * grid_.unit_tiles || count % grid_.unit_tiles != 0 ||
          group_panels_[group] >= grid_.panels)
        return invalid_input(fmt::format("group {} has {} tiles of panel {}", group, count, group_panels_[group]));
      panel_groups_[group_panels_[group]].push_back(group);
    }
    return check_each(tiles_, 64, threads, [&](std::int64_t tile) { return check_tile(tile); });
  }

  std::int64_t units() const override { return grid_.panels; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    rows.begin(static_cast<std::uint32_t>(unit), static_cast<std::size_t>(grid_.panel_rows));
    for (const std::int64_t group : panel_groups_[unit])
      for (std::int64_t tile = group_tiles_[group]; tile < group_tiles_[group + 1]; ++tile) read_tile(tile, rows);
    return rows.store_from(unit * grid_.panel_rows);
  }

  // The arrays follow from the pattern.
  Status check_whole(const UnpackedRows& rows) const override {
    if (rows.nnz() != nonzeros_) return invalid_input(fmt::format("{} nonzeros, not {}", rows.nnz(), nonzeros_));
    const Structure all = structure_of(rows.matrix(), grid_);
    const auto same = [this](const Elements<std::uint32_t>& own, std::span<const std::uint32_t> other) {
      return spare_ ? own.begins_with(other) : own.holds(other);
    };
    if (same(group_panels_, all.group_panels) && same(group_tiles_, all.group_tiles) && same(columns_, all.columns) &&
        same(masks_, all.masks) && same(firsts_, all.firsts))
      return {};
    return invalid_input("groups, tiles or places are not as packers write them");
  }

 private:
  std::uint32_t mask(std::int64_t at, std::int64_t word) const { return masks_[at * grid_.words + word]; }

  Status check_tile(std::int64_t tile) const {
    if (columns_[tile] >= grid_.tile_columns)
      return invalid_input(fmt::format("tile {} is in column {} of {}", tile, columns_[tile], grid_.tile_columns));
    for (std::int64_t at = tile * grid_.panel_rows; at < (tile + 1) * grid_.panel_rows; ++at) {
      std::int64_t end = firsts_[at];
      for (std::int64_t word = 0; word < grid_.words; ++word) end += std::popcount(mask(at, word));
      if (end > nonzeros_)
        return invalid_input(fmt::format("tile {} has places up to {} of {} nonzeros", tile, end, nonzeros_));
    }
    return {};
  }

  void read_tile(std::int64_t tile, UnitRows& rows) const {
    for (std::int64_t row = 0; row < grid_.panel_rows; ++row) {
      UnitRows::Entry* to = rows.room(static_cast<std::size_t>(row), static_cast<std::size_t>(grid_.columns));
      for (std::int64_t word = 0; word < grid_.words; ++word) {
        for (std::uint32_t bits = mask(tile * grid_.panel_rows + row, word); bits != 0; bits &= bits - 1) {
          const std::int64_t column = columns_[tile] * grid_.columns + word * kWordColumns + std::countr_zero(bits);
          *to++ = {static_cast<std::uint32_t>(column), one_};
        }
      }
      rows.take(static_cast<std::size_t>(row), to);
    }
  }

  const Grid grid_;
  const std::uint32_t one_;  // in place of values
  const bool spare_;
  std::int64_t groups_ = 0;
  std::int64_t tiles_ = 0;
  std::int64_t nonzeros_ = 0;
  Elements<std::uint32_t> group_panels_, group_tiles_, columns_, masks_, firsts_;
  std::vector<std::vector<std::int64_t>> panel_groups_;
};

}  // namespace

std::string TileMasksPacking::name() const {
  return fmt::format("tile_masks_c{}_r{}_g{}", columns, row_tiles, group_columns);
}

std::optional<TileMasksPacking> TileMasksPacking::named(std::string_view name) {
  for (const int columns : {32, 64})
    for (const int row_tiles : {1, 2})
      for (const int group_columns : {128, 256, 512})
        if (const TileMasksPacking packing{columns, row_tiles, group_columns}; packing.name() == name) return packing;
  return std::nullopt;
}

PackedFormat tile_masks_format() {
  return format_of<TileMasksReader, TileMasksPacking::named, pack_weight, 1, check>(
      {.name = "tile_masks", .value_arrays = {}, .halves_only = true});
}

}  // namespace sparsmith
