// The slots format: rows are dealt to parts of equal work, and each row is cut into slots of equally many nonzeros
// (slots_layout.h has the arrays). A lane works on a slot, so that no warp waits for a long row. A block works on a
// part.
//
// Packing is linear in nnz, except for the sort of rows, and uses all cores. The same weight always gives the same
// bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "formats/slots_layout.h"

namespace sparsmith {

enum class SlotColumns : std::uint8_t {
  kUint16,   // K <= 65,535
  kUint32,   // any K
  kDelta8,   // K <= 65,536: distance to the previous column; a distance over 255 leaves the rest of the tile empty
  kOffset8,  // K <= 65,536: distance to the lowest column of a lane's tile, with the same limit
  kDelta4,   // K <= 65,536: distance to the previous column; a distance over 15 has padding in between
  kDelta6,   // the same, with 63
  kDelta3,   // the same, with 8; each padding is one column further. K >= 256
};

// Values are fp32, fp16 or bf16. Facts: columns, vector_width, tiles_per_slot, parts, groups, heavy_parts, heavy_groups
// and rows_per_part (as in slots_layout.h), stored (nonzeros with padding), longest_row (in slots), balance (slots of
// the fullest part over the mean slots of a part, in thousandths). A row has at most 65,535 slots.
struct SlotsPacking {
  SlotColumns columns = SlotColumns::kUint16;
  int vector_width = 8;    // nonzeros of a lane's tile: one of slot_vector_widths()
  int tiles_per_slot = 1;  // 1, 2 or 4
  int parts = 1;           // wanted blocks that share the weight: fewer if there are fewer rows, and a
                           // multiple of it if a part would exceed kMaxPartSlots

  static constexpr std::int64_t kMaxPartSlots = 8192;  // of the mean part; a long row may need more

  // "slots_off8_v16_p1_b264"
  std::string name() const;
  bool operator==(const SlotsPacking&) const = default;
};

struct SlotColumnsKind {
  std::string_view name;
  int bits;                   // bits of a column, or of a distance
  int longest_step;           // the longest distance; 0: whole columns
  std::int64_t most_columns;  // most columns of the weight
};
inline constexpr SlotColumnsKind kSlotColumnsKinds[] = {
    {"u16", 16, 0, 65535},  // one value more than columns: K is the column of padding
    {"u32", 32, 0, (std::int64_t{1} << 32) - 1},
    {"delta8", 8, slots::kMaxStep, 65536},
    {"off8", 8, slots::kMaxStep, 65536},
    {"delta4", 4, slots::kMaxStep4, 65536},
    {"delta6", 6, slots::kMaxStep6, 65536},
    {"delta3", 3, slots::kMaxStep3, 65536},
};
constexpr const SlotColumnsKind& slot_columns_kind(SlotColumns columns) {
  return kSlotColumnsKinds[static_cast<std::size_t>(columns)];
}
constexpr std::string_view slot_columns_name(SlotColumns columns) { return slot_columns_kind(columns).name; }
// The possible numbers of nonzeros of a lane's tile, such that its columns are whole words: 4, 8 and 16; 8, 16 and 32
// with kDelta4; 16 with kDelta6; 32 with kDelta3.
std::span<const int> slot_vector_widths(SlotColumns columns);
bool has_vector_width(SlotColumns columns, std::int64_t width);

}  // namespace sparsmith
