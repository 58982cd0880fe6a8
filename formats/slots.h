// The slots format: rows dealt to parts of equal work, each cut into slots of equally many nonzeros (slots_layout.h has
// the arrays). A lane works on a slot, so that no warp waits for a long row, and a part is what a block works on.
//
// Packing is linear in nnz but for the sort of rows, and uses all cores; the same weight always gives the same bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

enum class SlotColumns : std::uint8_t {
  kUint16,   // K <= 65,535
  kUint32,   // any K
  kDelta8,   // K <= 65,536: distance to the column before; a longer one than 255 leaves the rest of a tile empty
  kOffset8,  // K <= 65,536: distance to the lowest column of a lane's tile, with the same limit
  kDelta4,   // K <= 65,536: distance to the column before; padding stands in between where it exceeds 15
  kDelta6,   // the same with 63
  kDelta3,   // the same with 8, and padding is one column further each: K from 256
};

struct SlotsPacking {
  SlotColumns columns = SlotColumns::kUint16;
  int vector_width = 8;    // nonzeros of a lane's tile: one of slot_vector_widths()
  int tiles_per_slot = 1;  // 1, 2 or 4
  int parts = 1;           // blocks that shall share the weight; there are fewer where there are fewer rows, and a
                           // multiple of it where a part would exceed kMaxPartSlots

  static constexpr std::int64_t kMaxPartSlots = 8192;  // of the mean part; one long row may take more

  // "slots_off8_v16_p1_b264"
  std::string name() const;
  bool operator==(const SlotsPacking&) const = default;
};

std::string_view slot_columns_name(SlotColumns columns);
// How many nonzeros a lane's tile may have, so that its columns are whole words: 4, 8 and 16, but 8, 16 and 32 with
// kDelta4, 16 with kDelta6, 32 with kDelta3.
std::span<const int> slot_vector_widths(SlotColumns columns);
bool has_vector_width(SlotColumns columns, std::int64_t width);

// Values are rounded to `type`. Facts: columns, vector_width, tiles_per_slot, parts, groups, heavy_parts, heavy_groups
// and rows_per_part (as in slots_layout.h), stored (nonzeros with padding), longest_row (in slots), balance (slots of
// the fullest part over those of the mean one, in thousandths). Error: kInvalidArgument for a packing that cannot hold
// the matrix: columns beyond what their width reaches, a row of over 65,535 slots.
Result<PackedWeight> pack_slots(const CsrMatrix& matrix, const SlotsPacking& packing, DataType type);

}  // namespace sparsmith
