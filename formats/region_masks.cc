#include "formats/region_masks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "formats/packed_reader.h"
#include "formats/region_masks_layout.h"
#include "formats/stored_value.h"

namespace sparsmith {
namespace {

using region_masks::kBandRows;
using region_masks::kBands;
using region_masks::kBoxColumns;
using region_masks::kBoxes;
using region_masks::kNoColumns;
using region_masks::kPanelRows;
using region_masks::kTileColumns;
using region_masks::kTileRows;

constexpr std::int64_t kLimit = std::int64_t{1} << 31;  // of nonzeros, and of tiles
constexpr int kBoxTiles = kBoxColumns / kTileColumns;   // columns of tiles

Status check(const RegionMasksPacking& /*packing*/, std::int64_t rows, std::int64_t cols, DataType /*type*/) {
  const std::int64_t tiles = ceil_div(rows, std::int64_t{kPanelRows}) * ceil_div(cols, std::int64_t{kTileColumns});
  if (tiles < kLimit / (kBands / 2 * kTileRows)) return {};  // so many pairs of bands, of so many rows, at most
  return invalid_argument(fmt::format("region_masks: {} x {} exceeds 32-bit indices", rows, cols));
}

// All arrays.
struct Structure {
  std::vector<std::uint32_t> region_panels, region_tiles, columns, tiles, masks, firsts;
};

// The bands of tiles, first | second << 8: those of `bands` in pairs, an odd last one with one that is not among them.
std::vector<std::uint32_t> pairs_of(std::uint32_t bands) {
  const auto other = static_cast<std::uint32_t>(std::countr_one(bands));
  std::vector<std::uint32_t> pairs;
  while (bands != 0) {
    const auto first = static_cast<std::uint32_t>(std::countr_zero(bands));
    bands &= bands - 1;
    const std::uint32_t second = bands == 0 ? other : static_cast<std::uint32_t>(std::countr_zero(bands));
    bands &= bands - (bands != 0);
    pairs.push_back(std::min(first, second) | std::max(first, second) << 8);
  }
  return pairs;
}

// Tiles of 64 columns that one region has.
struct Part {
  std::uint32_t box;  // which 64 columns
  std::vector<std::uint32_t> tiles;
};

// What a panel holds: the columns of tiles with an element, ascending, and for each a bit for each band that has one.
struct Panel {
  std::vector<std::uint32_t> columns;
  std::vector<std::uint32_t> bands;

  std::size_t place(std::uint32_t column) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(columns, column) - columns.begin());
  }
};

Panel panel_of(const SparsityPattern& pattern, std::int64_t panel) {
  std::vector<std::uint32_t> all(ceil_div(pattern.cols, std::int64_t{kTileColumns}));
  const std::int64_t end_row = std::min(pattern.rows, (panel + 1) * kPanelRows);
  for (std::int64_t row = panel * kPanelRows; row < end_row; ++row)
    for (std::int64_t i = pattern.row_offsets[row]; i < pattern.row_offsets[row + 1]; ++i)
      all[pattern.column_indices[i] / kTileColumns] |= 1U << row % kPanelRows / kBandRows;
  Panel held;
  for (std::size_t column = 0; column < all.size(); ++column) {
    if (all[column] == 0) continue;
    held.columns.push_back(static_cast<std::uint32_t>(column));
    held.bands.push_back(all[column]);
  }
  return held;
}

// Those with the most tiles first.
std::vector<Part> parts_of(const Panel& panel, std::size_t most_tiles) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < panel.columns.size(); ++i) {
    const std::uint32_t box = panel.columns[i] / kBoxTiles;
    for (const std::uint32_t pair : pairs_of(panel.bands[i])) {
      if (parts.empty() || parts.back().box != box || parts.back().tiles.size() == most_tiles)
        parts.push_back({box, {}});
      parts.back().tiles.push_back(pair | panel.columns[i] % kBoxTiles << 16);
    }
  }
  std::ranges::stable_sort(parts, std::greater(), [](const Part& part) { return part.tiles.size(); });
  return parts;
}

struct Region {
  std::vector<const Part*> parts;
  std::size_t tiles = 0;
};

// Each part goes to the region with the fewest tiles of those that take parts. Empty if one has no room.
std::vector<Region> share_out(const std::vector<Part>& parts, std::size_t count, std::size_t most_tiles) {
  std::vector<Region> regions(count);
  using Place = std::pair<std::size_t, std::size_t>;  // tiles, number
  std::priority_queue<Place, std::vector<Place>, std::greater<>> open;
  for (std::size_t number = 0; number < count; ++number) open.emplace(0, number);
  for (const Part& part : parts) {
    if (open.empty() || open.top().first + part.tiles.size() > most_tiles) return {};
    Region& region = regions[open.top().second];
    region.parts.push_back(&part);
    region.tiles += part.tiles.size();
    const std::size_t number = open.top().second;
    open.pop();
    if (region.parts.size() < kBoxes) open.emplace(region.tiles, number);
  }
  return regions;
}

// As few as have room, about: pairs, at least one.
std::vector<Region> regions_of(const std::vector<Part>& parts, std::size_t most_tiles) {
  std::size_t tiles = 0;
  for (const Part& part : parts) tiles += part.tiles.size();
  const std::int64_t least = std::max(ceil_div(std::ssize(parts), std::int64_t{kBoxes}), ceil_div(tiles, most_tiles));
  auto count = static_cast<std::size_t>(std::max<std::int64_t>(least, 1));
  std::vector<Region> regions;
  for (count += count % 2; regions.empty(); count += std::max<std::size_t>(2, count / 64 * 2))
    regions = share_out(parts, count, most_tiles);
  return regions;
}

// Where the rows of a panel are among masks: of each band, for each of the panel's columns.
using Places = std::array<std::vector<std::uint32_t>, kBands>;

Structure structure_of(const SparsityPattern& pattern, std::size_t most_tiles) {
  const std::int64_t panels = ceil_div(pattern.rows, std::int64_t{kPanelRows});
  std::vector<Panel> held(panels);
  std::vector<std::vector<Part>> parts(panels);
  std::vector<std::vector<Region>> regions(panels);
  std::vector<Places> places(panels);
  const auto cut_panel = [&](std::int64_t panel) {
    held[panel] = panel_of(pattern, panel);
    parts[panel] = parts_of(held[panel], most_tiles);
    regions[panel] = regions_of(parts[panel], most_tiles);
    for (std::vector<std::uint32_t>& band : places[panel]) band.resize(held[panel].columns.size());
  };
  parallel_each(panels, cut_panel, 1);

  std::vector<std::tuple<std::int64_t, std::size_t, std::int64_t>> pairs;  // fewer tiles last; then number, and panel
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    for (std::size_t first = 0; first < regions[panel].size(); first += 2) {
      const std::size_t most = std::max(regions[panel][first].tiles, regions[panel][first + 1].tiles);
      pairs.emplace_back(-static_cast<std::int64_t>(most), first, panel);
    }
  }
  std::ranges::sort(pairs);

  Structure all;
  const auto add_region = [&](const Region& region, std::int64_t panel) {
    all.region_panels.push_back(static_cast<std::uint32_t>(panel));
    all.region_tiles.push_back(static_cast<std::uint32_t>(all.tiles.size()));
    for (std::size_t p = 0; p < kBoxes; ++p) {
      const Part* const part = p < region.parts.size() ? region.parts[p] : nullptr;
      all.columns.push_back(part == nullptr ? kNoColumns : part->box);
      if (part == nullptr) continue;
      for (const std::uint32_t tile : part->tiles) {
        const auto row = static_cast<std::uint32_t>(all.tiles.size() * kTileRows);
        const std::size_t column = held[panel].place(part->box * kBoxTiles + (tile >> 16));
        const std::array<std::uint32_t, 2> own = {tile & 0xFF, tile >> 8 & 0xFF};
        for (std::uint32_t b = 0; b < 2; ++b)
          if ((held[panel].bands[column] >> own[b] & 1U) != 0) places[panel][own[b]][column] = row + b * kBandRows;
        all.tiles.push_back(tile + (static_cast<std::uint32_t>(p * kBoxTiles) << 16));
      }
    }
  };
  for (const auto& [tiles, first, panel] : pairs) {
    add_region(regions[panel][first], panel);
    add_region(regions[panel][first + 1], panel);
  }
  all.region_tiles.push_back(static_cast<std::uint32_t>(all.tiles.size()));

  all.masks.resize(all.tiles.size() * kTileRows);
  all.firsts.resize(all.masks.size());
  const auto fill_panel = [&](std::int64_t panel) {
    const std::int64_t end_row = std::min(pattern.rows, (panel + 1) * kPanelRows);
    for (std::int64_t row = panel * kPanelRows; row < end_row; ++row) {
      const std::vector<std::uint32_t>& of_band = places[panel][row % kPanelRows / kBandRows];
      std::size_t place = 0;   // of the column; columns ascend in a row, too
      std::int64_t last = -1;  // of the element before
      for (std::int64_t i = pattern.row_offsets[row]; i < pattern.row_offsets[row + 1]; ++i) {
        const std::uint32_t column = pattern.column_indices[i];
        while (held[panel].columns[place] < column / kTileColumns) ++place;
        const std::int64_t at = of_band[place] + row % kBandRows;
        if (at != last) all.firsts[at] = static_cast<std::uint32_t>(i);
        last = at;
        all.masks[at] |= 1U << column % kTileColumns;
      }
    }
  };
  parallel_each(panels, fill_panel, 1);
  return all;
}

Status pack_weight(const CsrMatrix& matrix, const RegionMasksPacking& packing, DataType /*type*/,
                   PackedWeight& packed) {
  if (matrix.nnz() >= kLimit)
    return invalid_argument(fmt::format("region_masks: {} nonzeros exceed 32-bit places", matrix.nnz()));
  const Structure all = structure_of(matrix, static_cast<std::size_t>(packing.tiles));
  packed.facts = {
      {"regions", std::ssize(all.region_panels)}, {"tiles", std::ssize(all.tiles)}, {"nonzeros", matrix.nnz()}};
  const auto add = [&](const char* name, const std::vector<std::uint32_t>& numbers) {
    packed.arrays.push_back(array_of(name, DataType::kUint32, numbers));
  };
  add("region_panels", all.region_panels);
  add("region_tiles", all.region_tiles);
  add("columns", all.columns);
  add("tiles", all.tiles);
  add("masks", all.masks);
  add("firsts", all.firsts);
  return {};
}

class RegionMasksReader : public PackedReader {
 public:
  RegionMasksReader(const PackedView& view, const RegionMasksPacking& packing, PackedParts& parts)
      : most_tiles_(packing.tiles),
        panels_(ceil_div(view.rows, std::int64_t{kPanelRows})),
        boxes_(ceil_div(view.cols, std::int64_t{kBoxColumns})),
        one_(half_bits(1.0F, view.value_type)) {
    regions_ = parts.fact("regions", 0, kLimit / kBoxes - 1);
    tiles_ = parts.fact("tiles", 0, kLimit - 1);
    nonzeros_ = parts.fact("nonzeros", 0, kLimit - 1);
    const auto array = [&](const char* name, std::int64_t count) {
      return parts.array<std::uint32_t>(name, DataType::kUint32, count);
    };
    region_panels_ = array("region_panels", regions_);
    region_tiles_ = array("region_tiles", regions_ + 1);
    columns_ = array("columns", regions_ * kBoxes);
    bands_ = array("tiles", tiles_);
    masks_ = array("masks", tiles_ * kTileRows);
    firsts_ = array("firsts", tiles_ * kTileRows);
    parts.require(regions_ % 2 == 0 && regions_ >= 2 * panels_,
                  fmt::format("{} regions are not pairs of {} panels", regions_, panels_));
  }

  Status check_bounds(int threads) override {
    if (region_tiles_[0] != 0 || region_tiles_[regions_] != tiles_)
      return invalid_input(fmt::format("region_tiles does not share out {} tiles", tiles_));
    panel_regions_.resize(panels_);
    for (std::int64_t region = 0; region < regions_; ++region) {
      SPARSMITH_RETURN_IF_ERROR(check_region(region));
      panel_regions_[region_panels_[region]].push_back(region);
    }
    return check_each(tiles_, 64, threads, [&](std::int64_t tile) { return check_places(tile); });
  }

  std::int64_t units() const override { return panels_; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    rows.begin(static_cast<std::uint32_t>(unit), kPanelRows);
    for (const std::int64_t region : panel_regions_[unit])
      for (std::int64_t tile = region_tiles_[region]; tile < region_tiles_[region + 1]; ++tile)
        read_tile(region, tile, rows);
    return rows.store_from(unit * kPanelRows);
  }

  // The arrays follow from the pattern.
  Status check_whole(const UnpackedRows& rows) const override {
    if (rows.nnz() != nonzeros_) return invalid_input(fmt::format("{} nonzeros, not {}", rows.nnz(), nonzeros_));
    const Structure all = structure_of(rows.matrix(), static_cast<std::size_t>(most_tiles_));
    if (region_panels_.holds(all.region_panels) && region_tiles_.holds(all.region_tiles) &&
        columns_.holds(all.columns) && bands_.holds(all.tiles) && masks_.holds(all.masks) && firsts_.holds(all.firsts))
      return {};
    return invalid_input("regions, tiles or places are not as packers write them");
  }

 private:
  // A region and the bands and columns of its tiles.
  Status check_region(std::int64_t region) const {
    const std::int64_t count = std::int64_t{region_tiles_[region + 1]} - region_tiles_[region];
    const std::uint32_t panel = region_panels_[region];
    if (count < 0 || count > most_tiles_ || region_tiles_[region + 1] > tiles_ || panel >= panels_ ||
        panel != region_panels_[region / 2 * 2])
      return invalid_input(fmt::format("region {} has {} tiles of panel {}", region, count, panel));
    for (std::int64_t box = region * kBoxes; box < (region + 1) * kBoxes; ++box)
      if (columns_[box] != kNoColumns && columns_[box] >= boxes_)
        return invalid_input(fmt::format("region {} has columns {} of {}", region, columns_[box], boxes_));
    for (std::int64_t tile = region_tiles_[region]; tile < region_tiles_[region + 1]; ++tile) {
      const std::uint32_t first = bands_[tile] & 0xFF;
      const std::uint32_t second = bands_[tile] >> 8 & 0xFF;
      const std::uint32_t column = bands_[tile] >> 16;
      if (first >= second || second >= kBands || column >= kBoxes * kBoxTiles ||
          columns_[region * kBoxes + column / kBoxTiles] == kNoColumns)
        return invalid_input(fmt::format("tile {} has bands {} and {}, columns {}", tile, first, second, column));
    }
    return {};
  }

  Status check_places(std::int64_t tile) const {
    for (std::int64_t at = tile * kTileRows; at < (tile + 1) * kTileRows; ++at) {
      const std::int64_t end = std::int64_t{firsts_[at]} + std::popcount(masks_[at]);
      if (end > nonzeros_)
        return invalid_input(fmt::format("tile {} has places up to {} of {} nonzeros", tile, end, nonzeros_));
    }
    return {};
  }

  void read_tile(std::int64_t region, std::int64_t tile, UnitRows& rows) const {
    const std::uint32_t half = bands_[tile] >> 16;
    const std::int64_t first_column =
        (std::int64_t{columns_[region * kBoxes + half / kBoxTiles]} * kBoxTiles + half % kBoxTiles) * kTileColumns;
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      const std::uint32_t band = bands_[tile] >> (r / kBandRows * 8) & 0xFF;
      const auto row = static_cast<std::size_t>(band * kBandRows + r % kBandRows);
      UnitRows::Entry* to = rows.room(row, kTileColumns);
      for (std::uint32_t bits = masks_[tile * kTileRows + r]; bits != 0; bits &= bits - 1)
        *to++ = {static_cast<std::uint32_t>(first_column + std::countr_zero(bits)), one_};
      rows.take(row, to);
    }
  }

  const std::int64_t most_tiles_;
  const std::int64_t panels_;
  const std::int64_t boxes_;
  const std::uint32_t one_;  // in place of values
  std::int64_t regions_ = 0;
  std::int64_t tiles_ = 0;
  std::int64_t nonzeros_ = 0;
  Elements<std::uint32_t> region_panels_, region_tiles_, columns_, bands_, masks_, firsts_;
  std::vector<std::vector<std::int64_t>> panel_regions_;
};

}  // namespace

std::string RegionMasksPacking::name() const { return fmt::format("region_masks_t{}", tiles); }

std::optional<RegionMasksPacking> RegionMasksPacking::named(std::string_view name) {
  for (int tiles = RegionMasksPacking::kLeastTiles; tiles <= kMostTiles; tiles += 2)
    if (const RegionMasksPacking packing{tiles}; packing.name() == name) return packing;
  return std::nullopt;
}

PackedFormat region_masks_format() {
  return format_of<RegionMasksReader, RegionMasksPacking::named, pack_weight, 1, check>(
      {.name = "region_masks", .value_arrays = {}, .halves_only = true});
}

}  // namespace sparsmith
