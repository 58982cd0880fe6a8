#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ceil_div.h"
#include "formats/bitmap.h"
#include "formats/bitmap_layout.h"
#include "formats/bitmap_tiles.h"
#include "formats/row_parts.h"
#include "formats/unpacked_rows.h"

namespace sparsmith {
namespace {

using bitmap::FirstStrips;
using bitmap::kStripColumns;
using bitmap::kTileRows;
using bitmap::kUnitBytes;
using bitmap::Place;
using bitmap::TileStarts;
using bitmap::TileWords;

// Of "bitmap_r4_b8_scanned"; nothing when it is no such name.
Result<BitmapPacking> packing_named(std::string_view name) {
  for (const int tiles : {1, 2, 4}) {
    for (const int run_bits : {4, 8}) {
      for (const bool stored : {false, true}) {
        const BitmapPacking packing{tiles, run_bits, stored};
        if (packing.name() == name) return packing;
      }
    }
  }
  return invalid_input(fmt::format("bitmap: no packing is named '{}'", name));
}

// Of a packed weight whose row tiles have `strips` strips of at most `max_bytes`.
Result<FirstStrips> first_strips_of(const PackedWeight& packed, std::int64_t strips, int max_bytes) {
  const auto fact = [&packed](const char* name) {
    const auto found = packed.facts.find(name);
    return found == packed.facts.end() ? -1 : found->second;
  };
  const std::int64_t count = fact("first_strips");
  const std::int64_t units = fact("first_units");
  if (count < 0 || count > std::min<std::int64_t>(strips, bitmap::kFirstStrips) || units < 0 ||
      units > max_bytes / kUnitBytes)
    return invalid_input(fmt::format("bitmap: {} first strips with room for {} units each", count, units));
  return FirstStrips{static_cast<int>(count), static_cast<int>(units)};
}

}  // namespace

Result<CsrMatrix> unpack_bitmap(const PackedWeight& packed) {
  SPARSMITH_ASSIGN_OR_RETURN(const BitmapPacking packing, packing_named(packed.packing));
  const PackedArray* strips = packed.array("strips");
  const PackedArray* offset_array = packed.array("strip_offsets");
  const std::int64_t strip_rows = std::int64_t{kTileRows} * packing.tiles;
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(packed.rows, packed.cols));
  const std::int64_t columns = ceil_div(packed.cols, kStripColumns);
  const std::int64_t count = ceil_div(packed.rows, strip_rows) * columns;
  if (strips == nullptr || offset_array == nullptr || offset_array->type != DataType::kUint32 ||
      offset_array->size() != count + 1)
    return invalid_input("bitmap: array 'strips' or 'strip_offsets' is missing or has the wrong size");
  if (packed.value_type != DataType::kFloat16 && packed.value_type != DataType::kBFloat16)
    return invalid_input("bitmap: values are fp16 or bf16");
  SPARSMITH_RETURN_IF_ERROR(
      check_row_parts("bitmap", packed.array("row_parts"), ceil_div(packed.rows, strip_rows) * packing.tiles));
  const auto first_rows = packed.array("row_parts")->as<std::uint32_t>();
  const auto offsets = offset_array->as<std::uint32_t>();
  const auto header =
      static_cast<std::size_t>(bitmap::header_bytes(packing.tiles, packing.run_bits, packing.stored_offsets));
  if (strips->bytes.size() / header < static_cast<std::size_t>(count))
    return invalid_input(fmt::format("bitmap: {} bytes for {} strips", strips->bytes.size(), count));
  SPARSMITH_ASSIGN_OR_RETURN(
      const FirstStrips first,
      first_strips_of(packed, columns,
                      bitmap::max_strip_bytes(packing.tiles, packing.run_bits, packing.stored_offsets)));

  const auto run_bits = static_cast<std::size_t>(packing.run_bits);
  // Of each strip its words, and where the values of each tile begin.
  const auto tiles = static_cast<std::size_t>(packing.tiles);
  const auto total = static_cast<std::size_t>(count);
  std::vector<TileWords> words(total * tiles);
  std::vector<TileStarts> starts(words.size());
  std::vector<const std::byte*> values(words.size());
  for (std::size_t strip = 0; strip < total; ++strip) {
    const auto [row_tile, column] = std::div(static_cast<std::int64_t>(strip), columns);
    const bool is_first = column < first.count;
    const std::size_t begin = (is_first ? first.begin(row_tile, column) : offsets[strip]) * kUnitBytes;
    const std::size_t end = is_first ? begin + static_cast<std::size_t>(first.units * kUnitBytes)
                                     : std::size_t{offsets[strip + 1]} * kUnitBytes;
    if (end > strips->bytes.size() || begin + header > end)
      return invalid_input(
          fmt::format("bitmap: strip {} lies at bytes {} to {} of {}", strip, begin, end, strips->bytes.size()));
    std::memcpy(words.data() + strip * tiles, strips->bytes.data() + begin, tiles * sizeof(TileWords));
    std::size_t at = begin + header;
    for (std::size_t tile = strip * tiles; tile < (strip + 1) * tiles; ++tile) {
      starts[tile] = bitmap::starts_of(words[tile], run_bits);
      values[tile] = strips->bytes.data() + at;
      at += std::size_t{starts[tile].values} * 2;
    }
    if (at > end) return invalid_input(fmt::format("bitmap: strip {} holds more bits than values", strip));
  }

  SPARSMITH_ASSIGN_OR_RETURN(UnpackedRows unpacked, UnpackedRows::create(packed, count * strip_rows));
  for (std::size_t part = 0; part < first_rows.size(); ++part) {
    const std::int64_t end = std::min<std::int64_t>(packed.rows, std::int64_t{first_rows[part]} + kTileRows);
    for (std::int64_t row = first_rows[part]; row < end; ++row) {
      const auto& line = bitmap::element_places()[static_cast<std::size_t>(row % kTileRows)];
      for (std::int64_t column = 0; column < packed.cols; ++column) {
        const std::size_t strip = part / tiles * static_cast<std::size_t>(columns) + column / kStripColumns;
        const std::size_t tile = strip * tiles + part % tiles;
        const Place place = line[static_cast<std::size_t>(column % kStripColumns)];
        if ((words[tile][place.lane] >> place.bit & 1U) == 0) continue;
        std::uint16_t bits = 0;
        std::memcpy(&bits, values[tile] + 2 * bitmap::value_index(words[tile], starts[tile], run_bits, place), 2);
        unpacked.add(row, static_cast<std::uint32_t>(column), bits);
      }
    }
  }
  return std::move(unpacked).matrix();
}

}  // namespace sparsmith
