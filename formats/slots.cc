#include "formats/slots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel_for.h"
#include "formats/slots_deal.h"
#include "formats/slots_layout.h"
#include "formats/slots_tiles.h"

namespace sparsmith {
namespace {

Status check(const CsrMatrix& matrix, const SlotsPacking& packing, DataType type) {
  if (!has_vector_width(packing.columns, packing.vector_width))
    return invalid_argument(fmt::format("slots: vector width with {} columns is {}, not {}",
                                        slot_columns_name(packing.columns),
                                        fmt::join(slot_vector_widths(packing.columns), " or "), packing.vector_width));
  if (packing.tiles_per_slot != 1 && packing.tiles_per_slot != 2 && packing.tiles_per_slot != 4)
    return invalid_argument(fmt::format("slots: tiles a slot are 1, 2 or 4, not {}", packing.tiles_per_slot));
  if (packing.parts < 1) return invalid_argument(fmt::format("slots: {} parts", packing.parts));
  // uint16 needs one value more than there are columns: K is what padding has.
  const std::int64_t reach = packing.columns == SlotColumns::kUint32   ? (std::int64_t{1} << 32) - 1
                             : packing.columns == SlotColumns::kUint16 ? 65535
                                                                       : 65536;
  if (matrix.cols > reach)
    return invalid_argument(fmt::format("slots: K = {} does not fit {} columns, which reach {}; pack with u32",
                                        matrix.cols, slot_columns_name(packing.columns), reach));
  if (packing.columns == SlotColumns::kDelta3 && matrix.cols < slots::kLeastColumns3)
    return invalid_argument(
        fmt::format("slots: delta3 columns need K >= {}, not {}", slots::kLeastColumns3, matrix.cols));
  if (matrix.rows >= std::int64_t{slots::kNoRow})
    return invalid_argument(fmt::format("slots: {} rows exceed 32-bit row numbers", matrix.rows));
  if (type != DataType::kFloat32 && type != DataType::kFloat16 && type != DataType::kBFloat16)
    return invalid_argument(fmt::format("slots: values are fp32, fp16 or bf16, not {}", short_name(type)));
  return {};
}

// Slots of every row.
std::vector<std::int64_t> count_slots(const CsrMatrix& matrix, const SlotsPacking& packing) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(matrix.rows));
  parallel_for(matrix.rows, 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::span columns(matrix.column_indices.data() + matrix.row_offsets[row],
                              static_cast<std::size_t>(matrix.row_length(row)));
      std::int64_t tiles = 0;
      for (std::int64_t at = 0; at < std::ssize(columns); at = tile_end(packing, columns, at)) ++tiles;
      counts[row] = (tiles + packing.tiles_per_slot - 1) / packing.tiles_per_slot;
    }
  });
  return counts;
}

}  // namespace

std::string_view slot_columns_name(SlotColumns columns) {
  switch (columns) {
    case SlotColumns::kUint16: return "u16";
    case SlotColumns::kUint32: return "u32";
    case SlotColumns::kDelta8: return "delta8";
    case SlotColumns::kOffset8: return "off8";
    case SlotColumns::kDelta4: return "delta4";
    case SlotColumns::kDelta6: return "delta6";
    case SlotColumns::kDelta3: return "delta3";
  }
  return "?";
}

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
  const std::span<const int> widths = slot_vector_widths(columns);
  return std::find(widths.begin(), widths.end(), width) != widths.end();
}

std::string SlotsPacking::name() const {
  return fmt::format("slots_{}_v{}_p{}_b{}", slot_columns_name(columns), vector_width, tiles_per_slot, parts);
}

Result<PackedWeight> pack_slots(const CsrMatrix& matrix, const SlotsPacking& packing, DataType type) {
  SPARSMITH_RETURN_IF_ERROR(check(matrix, packing, type));
  const std::vector<std::int64_t> row_slots = count_slots(matrix, packing);
  const SlotsDeal dealt(row_slots, packing.parts);
  const std::int64_t parts = std::ssize(dealt.rows);
  if (dealt.fullest > 65535)
    return invalid_argument(
        fmt::format("slots: a part has {} slots, of at most 65,535: a row is too long for slots of "
                    "{} nonzeros",
                    dealt.fullest, packing.vector_width * packing.tiles_per_slot));

  const std::int64_t group_bytes = std::int64_t{packing.tiles_per_slot} * SlotTileSize(packing, type).tile();
  PackedWeight packed;
  packed.packing = packing.name();
  packed.packer_version = 3;
  packed.rows = matrix.rows;
  packed.cols = matrix.cols;
  packed.nnz = matrix.nnz();
  packed.value_type = type;
  packed.arrays.push_back({"slots", DataType::kUint8,
                           std::vector<std::byte>(static_cast<std::size_t>(dealt.stored_groups() * group_bytes))});
  const std::span<std::byte> bytes(packed.arrays.back().bytes);
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      std::vector<SlotRow> rows;
      rows.reserve(dealt.rows[part].size());
      for (const std::uint32_t row : dealt.rows[part])
        rows.push_back({matrix.row_offsets[row], matrix.row_length(row), row_slots[row]});
      const int groups = dealt.sizes.groups_of(static_cast<int>(part));
      write_part(matrix, packing, type, rows, groups,
                 bytes.subspan(static_cast<std::size_t>(dealt.sizes.first_group(part) * group_bytes),
                               static_cast<std::size_t>(groups * group_bytes)));
    }
  });
  const std::vector<slots::Row> descriptors = dealt.describe(row_slots);
  PackedArray& rows = packed.arrays.emplace_back(PackedArray{"rows", DataType::kUint32, {}});
  rows.bytes.resize(descriptors.size() * sizeof(slots::Row));
  std::memcpy(rows.bytes.data(), descriptors.data(), rows.bytes.size());

  packed.facts = dealt.facts(packing, row_slots);
  return packed;
}

}  // namespace sparsmith
