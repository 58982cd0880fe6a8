#include "formats/pattern_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/ceil_div.h"
#include "formats/bsr.h"
#include "formats/bsr_layout.h"
#include "formats/csr.h"
#include "formats/packed_format.h"
#include "formats/places.h"
#include "formats/tile_masks.h"
#include "formats/tile_masks_layout.h"

namespace sparsmith {
namespace {

// A pattern of `nnz` elements in aligned blocks.
class Blocks {
 public:
  Blocks(std::int64_t nnz, std::int64_t side) : nnz_(nnz), side_(side) {}

  // Tiles of so many rows and columns that hold an element, at most.
  std::int64_t tiles(std::int64_t rows, std::int64_t cols) const {
    return ceil_div(nnz_, side_ * side_) * tiles_of_side(rows) * tiles_of_side(cols);
  }

 private:
  std::int64_t tiles_of_side(std::int64_t tile) const {
    return ceil_div(side_, tile) + (side_ % tile == 0 || tile % side_ == 0 ? 0 : 1);
  }

  std::int64_t nnz_;
  std::int64_t side_;
};

std::int64_t with_room(std::int64_t count, std::int64_t most) { return std::min(most, count + count / 4 + 64); }

// Sets the bytes of an array of so many 32-bit words.
void set_words(const PackedView& packed, std::string_view name, std::int64_t words, PatternRoom& room) {
  for (std::size_t i = 0; i < packed.arrays.size(); ++i)
    if (packed.arrays[i].name == name) room.bytes[i] = static_cast<std::size_t>(words) * sizeof(std::uint32_t);
}

bool is_lines(std::string_view packing) {
  return packing == BsrPacking{.tiles = 4, .line = 32}.name() || packing == BsrPacking{.tiles = 4, .line = 64}.name();
}

// `rows`, `cols`: of the packed rows.
void room_of_lines(const PackedView& packed, std::int64_t rows, std::int64_t cols, const Blocks& of,
                   PatternRoom& room) {
  const std::int64_t line = without_transposed(packed.packing) == BsrPacking{.tiles = 4, .line = 32}.name() ? 32 : 64;
  const std::int64_t all = ceil_div(rows, std::int64_t{bsr::kLineRows}) * ceil_div(cols, line);
  const std::int64_t blocks = with_room(room.facts.at("blocks"), std::min(all, of.tiles(bsr::kLineRows, line)));
  room.facts["blocks"] = blocks;
  set_words(packed, "blocks", blocks * bsr::kLineRows * line / 2, room);
  set_words(packed, "block_columns", blocks, room);
}

void room_of_tiles(const PackedView& packed, const TileMasksPacking& packing, std::int64_t rows, std::int64_t cols,
                   const Blocks& of, PatternRoom& room) {
  const std::int64_t panel_rows = std::int64_t{packing.row_tiles} * tile_masks::kTileRows;
  const std::int64_t panels = ceil_div(rows, panel_rows);
  const std::int64_t unit_tiles = tile_masks::kUnitColumns / packing.columns;
  const std::int64_t all = panels * ceil_div(ceil_div(cols, std::int64_t{packing.columns}), unit_tiles);
  const std::int64_t held =
      ceil_div(of.tiles(panel_rows, packing.columns) + panels, unit_tiles);  // one may hold nothing
  const std::int64_t units = with_room(ceil_div(room.facts.at("tiles"), unit_tiles), std::min(all, held));
  const std::int64_t tiles = units * unit_tiles;
  const std::int64_t groups =
      panels + units * tile_masks::kUnitColumns / packing.group_columns;  // each panel may have a short one
  room.facts["tiles"] = tiles;
  room.facts["groups"] = groups;
  set_words(packed, "group_panels", groups, room);
  set_words(packed, "group_tiles", groups + 1, room);
  set_words(packed, "columns", tiles, room);
  set_words(packed, "masks", tiles * panel_rows * packing.columns / tile_masks::kWordColumns, room);
  set_words(packed, "firsts", tiles * panel_rows, room);
}

bool depends_on_counts_alone(std::string_view packing) {
  return packing == "dense" || packing == CsrPacking{.index_bytes = 2}.name() ||
         packing == CsrPacking{.index_bytes = 4}.name();
}

// Without runs of indices: any pattern has as many numbers.
void add_places(const PackedView& packed, std::int64_t nnz, PatternRoom& room) {
  std::int64_t elements = 0;
  const auto size = static_cast<std::int64_t>(size_of(packed.value_type));
  for (const std::string& name : value_array_names(packed.packing)) {
    const auto array = std::ranges::find(packed.arrays, name, &PackedArrayView::name);
    const auto bytes = static_cast<std::int64_t>(room.bytes[array - packed.arrays.begin()]);
    room.writer_facts[place_count_fact(name)] = bytes / size;
    elements += bytes / size;
  }
  using Kind = PlaceArrays::Kind;
  Kind kind = writes_all(packed.packing, elements, nnz) ? Kind::kSources : Kind::kPlaces;
  if (kind == Kind::kSources && packed.packing == "dense") kind = Kind::kMasks;
  const std::int64_t indices = kind == Kind::kPlaces ? nnz : elements;
  const bool masks = kind == Kind::kMasks;
  room.run_bytes = sizeof(std::uint32_t) * (masks ? 3 * ceil_div(indices, std::int64_t{64}) : indices);
  room.writer_facts[kPlaces] = indices;
  room.writer_facts[kPlaceRunBits] = masks ? 6 : 0;
  room.writer_facts[kPlaceKind] = static_cast<std::int64_t>(kind);
  room.writer_facts[kPlaceCopies] = 0;
}

}  // namespace

Result<PatternRoom> pattern_room(const PackedView& packed, std::int64_t nnz, std::int64_t block, bool written) {
  const Blocks blocks(nnz, block);
  PatternRoom room;
  for (const PackedArrayView& array : packed.arrays) room.bytes.push_back(array.bytes.size());
  if (packed.facts != nullptr) room.facts = *packed.facts;
  const std::string_view packing = without_transposed(packed.packing);
  std::int64_t rows = packed.rows;
  std::int64_t cols = packed.cols;
  if (is_transposed(packed.packing)) std::swap(rows, cols);
  if (is_lines(packing)) {
    room_of_lines(packed, rows, cols, blocks, room);
  } else if (const auto tiles = TileMasksPacking::named(packing)) {
    room_of_tiles(packed, *tiles, rows, cols, blocks, room);
  } else if (!depends_on_counts_alone(packing)) {
    return unsupported(fmt::format("packing {} does not take other patterns", packed.packing));
  }
  room.writer_facts = room.facts;
  if (written) add_places(packed, nnz, room);
  return room;
}

}  // namespace sparsmith
