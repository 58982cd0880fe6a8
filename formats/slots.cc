#include "formats/slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "base/split.h"
#include "formats/packed_reader.h"
#include "formats/slots_deal.h"
#include "formats/slots_layout.h"
#include "formats/slots_steps.h"
#include "formats/slots_tiles.h"

namespace sparsmith {

std::span<const int> slot_vector_widths(SlotColumns columns) {
  static constexpr int kAll[] = {4, 8, 16, 32};
  const std::span<const int> all(kAll);
  switch (columns) {
    case SlotColumns::kDelta4: return all.subspan(1);
    case SlotColumns::kDelta6: return all.subspan(2, 1);
    case SlotColumns::kDelta3: return all.subspan(3);
    default: return all.first(3);
  }
}

bool has_vector_width(SlotColumns columns, std::int64_t width) {
  return std::ranges::count(slot_vector_widths(columns), width) > 0;
}

std::string SlotsPacking::name() const {
  return fmt::format("slots_{}_v{}_p{}_b{}", slot_columns_name(columns), vector_width, tiles_per_slot, parts);
}

namespace {

// Slots of every row.
std::vector<std::int64_t> count_slots(const CsrMatrix& matrix, const SlotsPacking& packing) {
  std::vector<std::int64_t> counts(matrix.rows);
  const auto count_row = [&](std::int64_t row) {
    const std::span columns(matrix.column_indices.data() + matrix.row_offsets[row],
                            static_cast<std::size_t>(matrix.row_length(row)));
    std::int64_t tiles = 0;
    for (std::int64_t at = 0; at < std::ssize(columns); at = tile_end(packing, columns, at)) ++tiles;
    counts[row] = ceil_div(tiles, packing.tiles_per_slot);
  };
  parallel_each(matrix.rows, count_row, 1024);
  return counts;
}

std::optional<SlotsPacking> packing_named(std::string_view name) {
  const auto parts = split(name, "_");
  if (parts.size() != 5) return std::nullopt;
  const auto kind = std::ranges::find(kSlotColumnsKinds, parts[1], &SlotColumnsKind::name);
  if (kind == std::end(kSlotColumnsKinds)) return std::nullopt;
  const SlotsPacking packing{static_cast<SlotColumns>(kind - kSlotColumnsKinds),
                             static_cast<int>(number_of(parts[2], "v")), static_cast<int>(number_of(parts[3], "p")),
                             static_cast<int>(number_of(parts[4], "b"))};
  const int tiles = packing.tiles_per_slot;
  const bool sound = packing.name() == name && has_vector_width(packing.columns, packing.vector_width) &&
                     (tiles == 1 || tiles == 2 || tiles == 4) && packing.parts >= 1;
  return sound ? std::optional(packing) : std::nullopt;
}

Status check(const SlotsPacking& packing, std::int64_t /*rows*/, std::int64_t cols, DataType /*type*/) {
  const SlotColumnsKind& kind = slot_columns_kind(packing.columns);
  if (cols > kind.most_columns)
    return invalid_argument(fmt::format("slots: K = {} does not fit {} columns, which reach {}; pack with u32", cols,
                                        kind.name, kind.most_columns));
  if (packing.columns == SlotColumns::kDelta3 && cols < slots::kLeastColumns3)
    return invalid_argument(fmt::format("slots: delta3 columns need K >= {}, not {}", slots::kLeastColumns3, cols));
  return {};
}

Status pack_weight(const CsrMatrix& matrix, const SlotsPacking& packing, DataType type, PackedWeight& packed) {
  const std::vector<std::int64_t> row_slots = count_slots(matrix, packing);
  const SlotsDeal dealt(row_slots, packing.parts);
  if (dealt.fullest > 65535)
    return invalid_argument(
        fmt::format("slots: a part has {} slots, of at most 65,535: a row is too long for slots of {} nonzeros",
                    dealt.fullest, packing.vector_width * packing.tiles_per_slot));
  const std::int64_t group_bytes = std::int64_t{packing.tiles_per_slot} * SlotTileSize(packing, type).tile();
  packed.arrays.push_back({"slots", DataType::kUint8, std::vector<std::byte>(dealt.stored_groups() * group_bytes)});
  const std::span<std::byte> bytes(packed.arrays.back().bytes);
  parallel_each(std::ssize(dealt.rows), [&](std::int64_t part) {
    std::vector<SlotRow> rows;
    rows.reserve(dealt.rows[part].size());
    for (const std::uint32_t row : dealt.rows[part])
      rows.push_back({matrix.row_offsets[row], matrix.row_length(row), row_slots[row]});
    const int groups = dealt.sizes.groups_of(static_cast<int>(part));
    write_part(matrix, packing, type, rows, groups,
               bytes.subspan(dealt.sizes.first_group(part) * group_bytes, groups * group_bytes));
  });
  packed.arrays.push_back(array_of("rows", DataType::kUint32, dealt.describe(row_slots)));
  packed.facts = dealt.facts(packing, row_slots);
  return {};
}

using slots::kLanes;

// A lane's bytes, one after the other. Inlined, since checks of contents spend their time here.
[[gnu::always_inline]] inline void copy_lane(const std::byte* from, int lane, int lane_bytes, void* to) {
  each_piece(lane, lane_bytes, [&](int at, int in_tile, auto size) {
    std::memcpy(static_cast<std::byte*>(to) + at, from + in_tile, size);
  });
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
      for (int w = 0; w < size_.columns / 4; ++w) bits |= columns.words[w];
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
    stream_ = parts.array<std::byte>("slots", DataType::kUint8,
                                     sizes_.first_group(parts_) * packing.tiles_per_slot * reader_.bytes());
    descriptors_ = Elements<slots::Row>(
        parts.array<std::uint32_t>("rows", DataType::kUint32, 2 * parts_ * rows_per_part_).bytes());
    parts.require(view.rows <= descriptors_.size(), "more rows than descriptors");
  }

  Status check_bounds(int threads) override {
    if (!are_dealt()) return invalid_input("rows are dealt to parts, or facts count them, as no packer does");
    const std::int64_t tiles = sizes_.first_group(parts_) * packing_.tiles_per_slot;
    return check_each(tiles, 64, threads, [&](std::int64_t tile) -> Status {
      if (reader_.is_inside(stream_.at(tile * reader_.bytes()))) return {};
      return invalid_input(fmt::format("tile {} reaches beyond the last column, or counts too many nonzeros", tile));
    });
  }

  std::int64_t units() const override { return parts_; }

  Status read(std::int64_t unit, UnitRows& rows) const override {
    std::vector<std::int64_t> matrix_rows;
    for (std::int64_t i = unit * rows_per_part_; i < (unit + 1) * rows_per_part_; ++i)
      if (descriptors_[i].row != slots::kNoRow) matrix_rows.push_back(descriptors_[i].row);
    matrix_rows.push_back(rows_);  // no row: what slots without one hold
    rows.begin(unit, matrix_rows.size());
    const std::int64_t slot_count = std::int64_t{sizes_.groups_of(static_cast<int>(unit))} * kLanes;
    std::int64_t slot = 0;
    for (std::size_t row = 0; row < matrix_rows.size(); ++row) {
      const bool is_row = row + 1 < matrix_rows.size();
      const std::uint32_t range =
          is_row ? descriptors_[unit * rows_per_part_ + static_cast<std::int64_t>(row)].range : 0;
      const std::int64_t end = is_row ? slot + (range >> 16) : slot_count;
      std::int64_t filled = 0;  // tiles
      for (; slot < end; ++slot) {
        const std::int64_t group = sizes_.first_group(unit) + slot / kLanes;
        for (std::int64_t t = 0; t < packing_.tiles_per_slot; ++t) {
          const std::size_t before = rows.size(row);
          if (!reader_.read(stream_.at((group * packing_.tiles_per_slot + t) * reader_.bytes()),
                            static_cast<int>(slot % kLanes), row, rows))
            return invalid_input(fmt::format("part {}, slot {}: padding that no packer writes", unit, slot));
          if (rows.size(row) > before) ++filled;
        }
      }
      // Where nonzeros stand in any order, their tiles need not be full.
      if (longest_step(packing_.columns) == 0)
        filled = ceil_div(static_cast<std::int64_t>(rows.size(row)), packing_.vector_width);
      if (is_row && ceil_div(filled, packing_.tiles_per_slot) != range >> 16)
        return invalid_input(
            fmt::format("part {}: row {} has more slots than its nonzeros need", unit, matrix_rows[row]));
    }
    return rows.store(matrix_rows);
  }

 private:
  // Whether each row is described once, and parts, descriptors and facts are those of rows of so many slots.
  bool are_dealt() const {
    std::vector<std::int64_t> row_slots(rows_, -1);
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < descriptors_.size(); ++i) {
      const slots::Row row = descriptors_[i];
      if (row.row == slots::kNoRow) continue;
      if (row.row >= rows_ || row_slots[row.row] >= 0) return false;
      row_slots[row.row] = row.range >> 16;
      total += row.range >> 16;
    }
    if (total > sizes_.first_group(parts_) * kLanes || std::ranges::find(row_slots, -1) != row_slots.end())
      return false;
    const SlotsDeal dealt(row_slots, packing_.parts);
    return dealt.facts(packing_, row_slots) == *facts_ && descriptors_.holds(dealt.describe(row_slots));
  }

  const SlotsPacking packing_;
  const std::int64_t rows_;
  const Facts* const facts_;
  const TileReader reader_;
  std::int64_t parts_ = 0;
  std::int64_t rows_per_part_ = 0;
  slots::PartSizes sizes_ = {0, 0, 0};
  Elements<std::byte> stream_;
  Elements<slots::Row> descriptors_;
};

}  // namespace

PackedFormat slots_format() {
  return format_of<SlotsReader, packing_named, pack_weight, 3, check>({.name = "slots", .value_arrays = {"slots"}});
}

}  // namespace sparsmith
