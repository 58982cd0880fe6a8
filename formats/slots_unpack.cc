// From the slots format back to rows.
#include <fmt/format.h>

#include <array>
#include <bit>

#include "formats/packed_reader.h"
#include "formats/slots.h"
#include "formats/slots_deal.h"
#include "formats/slots_layout.h"
#include "formats/slots_steps.h"
#include "formats/slots_tiles.h"

namespace sparsmith {
namespace {

using slots::kLanes;

Result<SlotsPacking> packing_named(std::string_view name) {
  const auto parts = name_parts(name);
  SlotsPacking packing;
  if (parts.size() == 5) {
    for (int kind = 0; kind <= static_cast<int>(SlotColumns::kDelta3); ++kind)
      if (parts[1] == slot_columns_name(static_cast<SlotColumns>(kind)))
        packing.columns = static_cast<SlotColumns>(kind);
    packing.vector_width = static_cast<int>(number_of(parts[2], "v"));
    packing.tiles_per_slot = static_cast<int>(number_of(parts[3], "p"));
    packing.parts = static_cast<int>(number_of(parts[4], "b"));
  }
  const int tiles = packing.tiles_per_slot;
  if (packing.name() == name && has_vector_width(packing.columns, packing.vector_width) &&
      (tiles == 1 || tiles == 2 || tiles == 4) && packing.parts >= 1)
    return packing;
  return invalid_input("a name of no slots packing");
}

// A lane's bytes, one after the other.
void copy_lane(const std::byte* from, int lane, int lane_bytes, void* lane_to) {
  auto* to = static_cast<std::byte*>(lane_to);
  int at = 0;
  for (; lane_bytes - at >= 16; at += 16) std::memcpy(to + at, from + at * kLanes + lane * 16, 16);
  if (lane_bytes - at >= 8) {
    std::memcpy(to + at, from + at * kLanes + lane * 8, 8);
    at += 8;
  }
  if (lane_bytes - at >= 4) std::memcpy(to + at, from + at * kLanes + lane * 4, 4);
}

std::uint32_t sum_of_bytes(std::uint32_t bytes) {
  bytes = (bytes & 0x00FF00FFU) + (bytes >> 8 & 0x00FF00FFU);
  return (bytes & 0xFFFFU) + (bytes >> 16);
}
std::uint32_t largest_byte(std::uint32_t bytes) {
  return std::max(std::max(bytes & 0xFFU, bytes >> 8 & 0xFFU), std::max(bytes >> 16 & 0xFFU, bytes >> 24));
}

// Reads tiles of one packed weight.
class TileReader {
 public:
  static constexpr int kMaxWidth = 32;

  TileReader(const SlotsPacking& packing, DataType type, std::int64_t cols)
      : packing_(packing), value_bytes_(static_cast<int>(size_of(type))), cols_(cols), size_(packing, type) {}

  std::int64_t bytes() const { return size_.tile(); }

  // Whether x is read inside only, at padding too.
  bool is_inside(const std::byte* tile) const {
    const std::byte* columns = tile + kLanes * size_.values;
    const std::int64_t places = std::int64_t{kLanes} * packing_.vector_width;
    switch (packing_.columns) {
      case SlotColumns::kUint16: return all_below<std::uint16_t>(columns, places, cols_ + 1);
      case SlotColumns::kUint32: return all_below<std::uint32_t>(columns, places, cols_ + 1);
      case SlotColumns::kDelta8: return lanes_inside<SlotColumns::kDelta8>(columns);
      case SlotColumns::kOffset8: return lanes_inside<SlotColumns::kOffset8>(columns);
      case SlotColumns::kDelta4: return lanes_inside<SlotColumns::kDelta4>(columns);
      case SlotColumns::kDelta6: return lanes_inside<SlotColumns::kDelta6>(columns);
      case SlotColumns::kDelta3: return lanes_inside<SlotColumns::kDelta3>(columns);
    }
    return false;
  }

  // Adds a lane's nonzeros to a row. False where padding is not as packers write it.
  bool read(const std::byte* tile, int lane, std::size_t row, UnitRows& rows) const {
    return value_bytes_ == 2 ? read_values<std::uint16_t>(tile, lane, row, rows)
                             : read_values<std::uint32_t>(tile, lane, row, rows);
  }

 private:
  // The columns of a lane's tile.
  struct Columns {
    std::array<std::uint32_t, kMaxWidth> words;
    std::uint32_t base = 0;
  };

  template <SlotColumns kKind>
  bool lanes_inside(const std::byte* columns) const {
    std::uint32_t furthest = 0;
    std::uint32_t most = 0;  // nonzeros of a lane
    for (int lane = 0; lane < kLanes; ++lane) {
      Columns from = columns_of(columns, lane);
      if constexpr (kKind == SlotColumns::kDelta8 || kKind == SlotColumns::kOffset8) {
        most = std::max(most, from.words[0] & 0xFFU);
        from.words[0] &= ~0xFFU;
      }
      std::uint32_t reach = 0;
      for (int group = 0; group < packing_.vector_width / 4; ++group) {
        const std::uint32_t steps = four_steps(kKind, from.words.data(), group);
        if constexpr (kKind == SlotColumns::kOffset8) {
          reach = std::max(reach, largest_byte(steps));
        } else {
          reach += sum_of_bytes(steps);
        }
      }
      if constexpr (kKind == SlotColumns::kDelta3) reach += static_cast<std::uint32_t>(packing_.vector_width - 1);
      furthest = std::max(furthest, from.base + reach);
    }
    return furthest < cols_ && most <= static_cast<std::uint32_t>(packing_.vector_width);
  }

  Columns columns_of(const std::byte* columns, int lane) const {
    Columns result;
    copy_lane(columns, lane, size_.columns, result.words.data());
    if (size_.base > 0) std::memcpy(&result.base, columns + kLanes * size_.columns + lane * size_.base, 2);
    return result;
  }

  template <class Bits>
  bool read_values(const std::byte* tile, int lane, std::size_t row, UnitRows& rows) const {
    std::array<Bits, kMaxWidth> values;
    copy_lane(tile, lane, size_.values, values.data());
    const Columns columns = columns_of(tile + kLanes * size_.values, lane);
    UnitRows::Entry* to = rows.room(row, static_cast<std::size_t>(packing_.vector_width));
    bool padded = true;
    switch (packing_.columns) {
      case SlotColumns::kUint16: padded = read_whole<std::uint16_t>(columns, values.data(), to); break;
      case SlotColumns::kUint32: padded = read_whole<std::uint32_t>(columns, values.data(), to); break;
      case SlotColumns::kDelta8:
      case SlotColumns::kOffset8: padded = read_counted(columns, values.data(), to); break;
      case SlotColumns::kDelta4: padded = read_steps<SlotColumns::kDelta4>(columns, values.data(), to); break;
      case SlotColumns::kDelta6: padded = read_steps<SlotColumns::kDelta6>(columns, values.data(), to); break;
      case SlotColumns::kDelta3: padded = read_steps<SlotColumns::kDelta3>(columns, values.data(), to); break;
    }
    rows.take(row, to);
    return padded;
  }

  template <class Column, class Bits>
  bool read_whole(const Columns& columns, const Bits* values, UnitRows::Entry*& to) const {
    std::uint32_t padding = 0;  // its values
    for (int e = 0; e < packing_.vector_width; ++e) {
      Column column;
      std::memcpy(&column, reinterpret_cast<const std::byte*>(columns.words.data()) + e * sizeof(Column),
                  sizeof(Column));
      const bool stored = column != cols_;
      *to = {column, values[e]};
      to += stored ? 1 : 0;
      padding |= stored ? 0U : values[e];
    }
    return padding == 0;
  }

  template <class Bits>
  bool read_counted(const Columns& columns, const Bits* values, UnitRows::Entry*& to) const {
    const int count = static_cast<int>(columns.words[0] & 0xFFU);
    const std::uint32_t steps_from = packing_.columns == SlotColumns::kDelta8 ? ~0U : 0U;
    std::uint32_t base = columns.base;
    std::uint32_t padding = count == 0 ? columns.base : 0;
    for (int e = 0; e < packing_.vector_width; ++e) {
      const std::uint32_t step = e == 0 ? 0 : columns.words[static_cast<std::size_t>(e) / 4] >> (8 * (e % 4)) & 0xFFU;
      if (e < count) {
        *to++ = {base + step, values[e]};
      } else {
        padding |= step | values[e];
      }
      base += step & steps_from;
    }
    return padding == 0;
  }

  // Padding is where the value is -0.
  template <SlotColumns kKind, class Bits>
  bool read_steps(const Columns& columns, const Bits* values, UnitRows::Entry*& to) const {
    constexpr std::uint32_t kNothing = 1U << (8 * sizeof(Bits) - 1);
    constexpr std::uint32_t kLeast = kKind == SlotColumns::kDelta3 ? 1 : 0;
    constexpr auto kLongest = static_cast<std::uint32_t>(longest_step(kKind));
    const int width = packing_.vector_width;
    std::uint32_t where = columns.base;
    std::uint32_t padding = 0;  // a bit for each place, as in the next two
    std::uint32_t least = 0;
    std::uint32_t longest = 0;
    for (int group = 0; group < width / 4; ++group) {
      const std::uint32_t steps = four_steps(kKind, columns.words.data(), group);
      for (int i = 0; i < 4; ++i) {
        const int e = 4 * group + i;
        const std::uint32_t step = (steps >> (8 * i) & 0xFFU) + (e == 0 ? 0 : kLeast);
        where += step;
        *to = {where, values[e]};
        to += values[e] != kNothing ? 1 : 0;
        padding |= static_cast<std::uint32_t>(values[e] == kNothing) << e;
        least |= static_cast<std::uint32_t>(step == kLeast) << e;
        longest |= static_cast<std::uint32_t>(step == kLongest) << e;
      }
    }
    if ((four_steps(kKind, columns.words.data(), 0) & 0xFFU) != 0) return false;
    const std::uint32_t all = ~0U >> (32 - width);
    if (padding == 0) return true;
    if (padding == all) {
      std::uint32_t bits = columns.base;
      for (int w = 0; w < size_.columns / 4; ++w) bits |= columns.words[static_cast<std::size_t>(w)];
      return bits == 0;
    }
    const int first = std::countr_one(padding);
    const int last = 31 - std::countl_zero(~padding & all);
    const std::uint32_t until_first = first == 0 ? 0 : ((2U << first) - 1) & ~1U;
    const std::uint32_t behind_last = last == 31 ? 0 : all & ~((2U << last) - 1);
    const std::uint32_t between = padding & ~((1U << first) - 1) & ~behind_last;
    return (until_first & ~least) == 0 && (behind_last & ~least) == 0 && (between & ~longest) == 0 &&
           (first == 0 || (kKind == SlotColumns::kDelta3 && where + 1 == cols_));
  }

  const SlotsPacking packing_;
  const int value_bytes_;
  const std::int64_t cols_;
  const SlotTileSize size_;
};

// Heavy parts are not all, and have no fewer groups than the others.
bool are_sizes(std::int64_t parts, const slots::PartSizes& sizes) {
  return sizes.heavy_parts < parts && sizes.groups <= sizes.heavy_groups &&
         (sizes.heavy_parts > 0 || sizes.heavy_groups == sizes.groups);
}

class SlotsReader : public PackedReader {
 public:
  SlotsReader(const PackedView& view, const SlotsPacking& packing, PackedParts& parts)
      : packing_(packing), rows_(view.rows), facts_(view.facts), reader_(packing, view.value_type, view.cols) {
    constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
    constexpr std::int64_t kMostGroups = 65536 / kLanes;  // a slot's number has 16 bits
    parts.expect_fact("columns", static_cast<std::int64_t>(packing.columns));
    parts.expect_fact("vector_width", packing.vector_width);
    parts.expect_fact("tiles_per_slot", packing.tiles_per_slot);
    parts_ = parts.fact("parts", 1, kMost);
    sizes_ = {static_cast<int>(parts.fact("heavy_parts", 0, kMost)),
              static_cast<int>(parts.fact("heavy_groups", 0, kMostGroups)),
              static_cast<int>(parts.fact("groups", 0, kMostGroups))};
    parts.require(are_sizes(parts_, sizes_), "sizes of parts that no packer writes");
    rows_per_part_ = parts.fact("rows_per_part", slots::kRowAlignment, kMost);
    for (const char* counted : {"longest_row", "stored", "balance"}) parts.fact(counted, 0, std::int64_t{1} << 62);
    parts.require(rows_per_part_ % slots::kRowAlignment == 0, "rows_per_part is not aligned");
    const std::int64_t most_columns = packing.columns == SlotColumns::kUint32   ? kMost
                                      : packing.columns == SlotColumns::kUint16 ? 65535
                                                                                : 65536;
    parts.require(
        view.cols <= most_columns && (packing.columns != SlotColumns::kDelta3 || view.cols >= slots::kLeastColumns3),
        "more columns than the packing reaches, or too few");
    stream_ = parts.array<std::byte>("slots", DataType::kUint8,
                                     sizes_.first_group(parts_) * packing.tiles_per_slot * reader_.bytes());
    descriptors_ = Elements<slots::Row>(
        parts.array<std::uint32_t>("rows", DataType::kUint32, 2 * parts_ * rows_per_part_).bytes());
    parts.require(view.rows <= descriptors_.size(), "more rows than descriptors");
  }

  Status check_bounds(int threads) override {
    SPARSMITH_RETURN_IF_ERROR(check_descriptors());
    const std::int64_t tiles = sizes_.first_group(parts_) * packing_.tiles_per_slot;
    return check_ranges(tiles, 64, threads, [&](std::int64_t begin, std::int64_t end) -> Status {
      for (std::int64_t tile = begin; tile < end; ++tile)
        if (!reader_.is_inside(stream_.at(tile * reader_.bytes())))
          return invalid_input(
              fmt::format("tile {} reaches beyond the last column, or counts too many nonzeros", tile));
      return {};
    });
  }

  std::int64_t units() const override { return parts_; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    std::vector<std::int64_t> matrix_rows;
    for (std::int64_t i = unit * rows_per_part_; i < (unit + 1) * rows_per_part_; ++i)
      if (descriptors_[i].row != slots::kNoRow) matrix_rows.push_back(descriptors_[i].row);
    matrix_rows.push_back(rows_);  // no row: what slots without one hold
    rows.begin(static_cast<std::uint32_t>(unit), matrix_rows.size());
    const std::int64_t slot_count = std::int64_t{sizes_.groups_of(static_cast<int>(unit))} * kLanes;
    std::int64_t slot = 0;
    for (std::size_t row = 0; row < matrix_rows.size(); ++row) {
      const bool is_row = row + 1 < matrix_rows.size();
      const std::uint32_t range =
          is_row ? descriptors_[unit * rows_per_part_ + static_cast<std::int64_t>(row)].range : 0;
      const std::int64_t end = is_row ? slot + (range >> 16) : slot_count;
      for (; slot < end; ++slot) {
        const std::int64_t group = sizes_.first_group(unit) + slot / kLanes;
        for (std::int64_t t = 0; t < packing_.tiles_per_slot; ++t)
          if (!reader_.read(stream_.at((group * packing_.tiles_per_slot + t) * reader_.bytes()),
                            static_cast<int>(slot % kLanes), row, rows))
            return invalid_input(fmt::format("part {}, slot {}: padding that no packer writes", unit, slot));
      }
    }
    return rows.store(matrix_rows);
  }

  Status check_whole(const UnpackedRows& rows) const override {
    std::vector<std::int64_t> row_slots(static_cast<std::size_t>(rows.rows()));
    for (std::int64_t i = 0; i < descriptors_.size(); ++i)
      if (descriptors_[i].row != slots::kNoRow) row_slots[descriptors_[i].row] = descriptors_[i].range >> 16;
    const SlotsDeal dealt(row_slots, packing_.parts);
    const std::vector<slots::Row> described = dealt.describe(row_slots);
    if (dealt.facts(packing_, row_slots) != *facts_) return invalid_input("facts are not those of its rows and slots");
    if (std::memcmp(described.data(), descriptors_.bytes().data(), descriptors_.bytes().size()) != 0)
      return invalid_input("rows are dealt to parts as no packer does");
    return {};
  }

 private:
  // Each row is described once; a part's have their slots one after the other, the longest first.
  Status check_descriptors() const {
    std::vector<bool> seen(static_cast<std::size_t>(rows_));
    std::int64_t rows_seen = 0;
    std::int64_t next = 0;      // of a part's slots, one that is yet free
    std::uint32_t longest = 0;  // slots that its next row may have
    bool ended = false;
    for (std::int64_t i = 0; i < descriptors_.size(); ++i) {
      const auto wrong = [&](const char* reason) {
        return invalid_input(fmt::format("rows: descriptor {} {}", i, reason));
      };
      const slots::Row row = descriptors_[i];
      if (i % rows_per_part_ == 0) {
        next = 0;
        longest = 65535;
        ended = false;
      }
      if (row.row == slots::kNoRow && row.range == 0) {
        ended = true;
        continue;
      }
      const std::uint32_t count = row.range >> 16;
      if (ended || row.row >= rows_ || (row.range & 0xFFFFU) != next ||
          next + count > std::int64_t{sizes_.groups_of(static_cast<int>(i / rows_per_part_))} * kLanes)
        return wrong("names what lies outside, or is another's");
      if (count > longest) return wrong("names a longer row than the one before");
      if (seen[row.row]) return wrong("names a row again");
      seen[row.row] = true;
      ++rows_seen;
      next += count;
      longest = count;
    }
    if (rows_seen == rows_) return {};
    return invalid_input(fmt::format("rows: {} of {} rows are described", rows_seen, rows_));
  }

  const SlotsPacking packing_;
  const std::int64_t rows_;
  const std::map<std::string, std::int64_t>* const facts_;
  const TileReader reader_;
  std::int64_t parts_ = 0;
  std::int64_t rows_per_part_ = 0;
  slots::PartSizes sizes_ = {0, 0, 0};
  Elements<std::byte> stream_;
  Elements<slots::Row> descriptors_;
};

}  // namespace

PackedFormat slots_format() { return format_of<SlotsReader, packing_named, pack_slots, 3>("slots", {"slots"}); }

}  // namespace sparsmith
