// From the slots format back to CSR. Nothing in a packed weight is believed: it may come from a file.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "formats/slots.h"
#include "formats/slots_layout.h"
#include "formats/slots_steps.h"
#include "formats/slots_tiles.h"
#include "formats/unpacked_rows.h"

namespace sparsmith {
namespace {

// The sizes that a packed weight says it has.
struct Shape {
  SlotsPacking packing;
  std::int64_t parts = 0;
  slots::PartSizes sizes = {0, 0, 0};
  std::int64_t rows_per_part = 0;
};

// Heavy parts are not all, and have no fewer groups than the others; a slot's number has 16 bits.
bool are_sizes(std::int64_t parts, std::int64_t heavy_parts, std::int64_t heavy_groups, std::int64_t groups) {
  constexpr std::int64_t kMostGroups = 65536 / slots::kLanes;
  return heavy_parts >= 0 && heavy_parts < parts && groups >= 0 && groups <= heavy_groups &&
         heavy_groups <= kMostGroups && (heavy_parts > 0 || heavy_groups == groups);
}

Result<Shape> shape_of(const PackedWeight& packed) {
  const auto fact = [&](const char* name) {
    const auto found = packed.facts.find(name);
    return found == packed.facts.end() ? -1 : found->second;
  };
  Shape shape;
  const std::int64_t columns = fact("columns");
  const std::int64_t width = fact("vector_width");
  const std::int64_t tiles = fact("tiles_per_slot");
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const std::int64_t heavy_parts = fact("heavy_parts");
  const std::int64_t heavy_groups = fact("heavy_groups");
  const std::int64_t groups = fact("groups");
  shape.parts = fact("parts");
  shape.rows_per_part = fact("rows_per_part");
  if (columns < 0 || columns > static_cast<std::int64_t>(SlotColumns::kDelta3) ||
      (tiles != 1 && tiles != 2 && tiles != 4) || shape.parts < 1 || shape.parts >= kMost ||
      !are_sizes(shape.parts, heavy_parts, heavy_groups, groups) || shape.rows_per_part < 0 ||
      shape.rows_per_part >= kMost)
    return invalid_input("slots: a fact is missing or out of range");
  shape.sizes = {static_cast<int>(heavy_parts), static_cast<int>(heavy_groups), static_cast<int>(groups)};
  if (!has_vector_width(static_cast<SlotColumns>(columns), width))
    return invalid_input("slots: a vector width whose columns are no whole words");
  shape.packing = {static_cast<SlotColumns>(columns), static_cast<int>(width), static_cast<int>(tiles), 1};
  return shape;
}

// Reads tiles of one packed weight.
class TileReader {
 public:
  TileReader(const PackedWeight& packed, const Shape& shape, const std::byte* bytes)
      : packing_(shape.packing), type_(packed.value_type), cols_(packed.cols), size_(packing_, type_), bytes_(bytes) {}

  // Adds the nonzeros of a lane of a tile to a row. Error: kInvalidInput when there are more than a lane has, or
  // padding lies outside.
  Status read(std::int64_t tile, int lane, std::int64_t row, UnpackedRows& unpacked) const {
    const std::byte* at = bytes_ + tile * size_.tile();
    const std::byte* columns = at + slots::kLanes * size_.values;
    if (pads_long_steps(packing_.columns)) return read_steps(at, columns, lane, row, unpacked);
    std::uint32_t base = 0;
    int count = packing_.vector_width;
    const bool counted = size_.base > 0;
    if (counted) {
      std::memcpy(&base, columns + slots::kLanes * size_.columns + lane * size_.base, 2);
      count = static_cast<int>(column(columns, lane, 0));
      if (count > packing_.vector_width)
        return invalid_input(fmt::format("slots: {} nonzeros in a tile of {}", count, packing_.vector_width));
    }
    for (int e = 0; e < count; ++e) {
      std::uint32_t where = base;
      if (!counted) where = column(columns, lane, e);
      if (counted && e > 0) where += column(columns, lane, e);
      if (packing_.columns == SlotColumns::kDelta8) base = where;
      if (!counted && where == cols_) continue;  // padding
      unpacked.add(row, where, value(at, lane, e));
    }
    return {};
  }

 private:
  // Of columns with padding between nonzeros: x is read at the padding's too.
  Status read_steps(const std::byte* values, const std::byte* columns, int lane, std::int64_t row,
                    UnpackedRows& unpacked) const {
    std::uint32_t where = 0;
    std::memcpy(&where, columns + slots::kLanes * size_.columns + lane * size_.base, 2);
    const std::uint32_t minus_zero = 1U << (8 * size_of(type_) - 1);
    for (int e = 0; e < packing_.vector_width; ++e) {
      const std::uint32_t step = read_step(packing_.columns, columns, lane, e, size_.columns);
      if (e == 0 && step != 0) return invalid_input("slots: the first distance of a tile is not 0");
      where += step;
      if (where >= cols_) return invalid_input(fmt::format("slots: a tile reaches column {} of {}", where, cols_));
      const std::uint32_t bits = value(values, lane, e);
      if (bits != minus_zero) unpacked.add(row, where, bits);
    }
    return {};
  }

  std::uint32_t column(const std::byte* columns, int lane, int e) const {
    const int bytes = size_.columns / packing_.vector_width;
    std::uint32_t result = 0;
    std::memcpy(&result, columns + interleaved_at(lane, e * bytes, size_.columns), static_cast<std::size_t>(bytes));
    return result;
  }

  std::uint32_t value(const std::byte* values, int lane, int e) const {
    const int bytes = static_cast<int>(size_of(type_));
    std::uint32_t result = 0;
    std::memcpy(&result, values + interleaved_at(lane, e * bytes, size_.values), static_cast<std::size_t>(bytes));
    return result;
  }

  SlotsPacking packing_;
  DataType type_;
  std::int64_t cols_;
  SlotTileSize size_;
  const std::byte* bytes_;
};

}  // namespace

Result<CsrMatrix> unpack_slots(const PackedWeight& packed) {
  SPARSMITH_ASSIGN_OR_RETURN(const Shape shape, shape_of(packed));
  const PackedArray* stream = packed.array("slots");
  const PackedArray* rows = packed.array("rows");
  const std::int64_t tile_bytes = SlotTileSize(shape.packing, packed.value_type).tile();
  const std::int64_t tiles = shape.sizes.first_group(shape.parts) * shape.packing.tiles_per_slot;
  if (stream == nullptr || static_cast<std::int64_t>(stream->bytes.size()) != tiles * tile_bytes)
    return invalid_input("slots: array 'slots' is missing or has the wrong size");
  if (rows == nullptr || rows->bytes.size() % sizeof(slots::Row) != 0 ||
      static_cast<std::int64_t>(rows->bytes.size() / sizeof(slots::Row)) != shape.parts * shape.rows_per_part)
    return invalid_input("slots: array 'rows' is missing or has the wrong size");

  const auto descriptors = rows->as<slots::Row>();
  const TileReader reader(packed, shape, stream->bytes.data());
  SPARSMITH_ASSIGN_OR_RETURN(UnpackedRows unpacked, UnpackedRows::create(packed, std::ssize(descriptors)));
  std::vector<bool> seen(static_cast<std::size_t>(packed.rows));
  std::int64_t rows_seen = 0;
  int next = 0;     // slots of a part that are yet free: its rows have theirs one after the other
  int longest = 0;  // slots of its first row, which no other has more of
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    const slots::Row& row = descriptors[i];
    const std::int64_t part = static_cast<std::int64_t>(i) / shape.rows_per_part;
    const int first = static_cast<int>(row.range & 0xFFFFU);
    const int count = static_cast<int>(row.range >> 16);
    if (static_cast<std::int64_t>(i) % shape.rows_per_part == 0) {
      next = 0;
      longest = count;
    }
    if (row.row == slots::kNoRow && row.range == 0) continue;
    if (row.row >= packed.rows || first != next ||
        first + count > shape.sizes.groups_of(static_cast<int>(part)) * slots::kLanes)
      return invalid_input(fmt::format("slots: descriptor {} names what lies outside, or is another's", i));
    if (count > longest)
      return invalid_input(fmt::format("slots: descriptor {} names a longer row than its part's first", i));
    if (seen[row.row]) return invalid_input(fmt::format("slots: row {} is described twice", row.row));
    seen[row.row] = true;
    ++rows_seen;
    next = first + count;
    for (int slot = first; slot < next; ++slot) {
      const std::int64_t group = shape.sizes.first_group(part) + slot / slots::kLanes;
      for (int t = 0; t < shape.packing.tiles_per_slot; ++t)
        SPARSMITH_RETURN_IF_ERROR(
            reader.read(group * shape.packing.tiles_per_slot + t, slot % slots::kLanes, row.row, unpacked));
    }
  }
  if (rows_seen != packed.rows)
    return invalid_input(fmt::format("slots: {} of {} rows are described", rows_seen, packed.rows));
  return std::move(unpacked).matrix();
}

}  // namespace sparsmith
