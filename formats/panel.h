// The panel format: a weight is cut into tasks for warps, which gather from a panel of X in shared memory. The gathers
// are scheduled so that they meet different banks (panel_layout.h has the arrays).
//
// Packing is linear in nnz, except for the sort of segments, and uses all cores. The result does not depend on the
// number of cores.
#pragma once

#include <cstdint>
#include <string>

#include "formats/panel_layout.h"

namespace sparsmith {

// Values are fp32, fp16 or bf16; staged rows are of 16 bits. Facts: parts (of one column part), column_parts, width,
// warps, segments, lane_order (panel::LaneOrder), turned (0 or 1), row_store, token_lanes, sweep_columns, share_steps,
// steps (of all shares), slots and rows (of the largest part), padding (entries without a nonzero), unread_bytes
// (unused room of shares), phases_permille (shared-memory phases per gather of 8 lanes, in thousandths: 1,000 is free
// of conflicts), balance_permille (steps that a block waits for, over the steps that it needs).
struct PanelPacking {
  int row_parts = 1;        // parts are a multiple of it: enough to keep the sums of a part within max_slots
  int column_parts = 1;     // parts of K
  int warps = 32;           // of a block: shares of a part
  int segment_lanes = 1;    // lanes of a segment: 1, 2 or 4; with token lanes, any power of 2 up to a warp's lanes
  int segment_length = 64;  // nonzeros; longer rows are cut into equal segments
  int max_slots = 2048;     // of a part
  panel::LaneOrder order = panel::LaneOrder::kPlain;
  int token_lanes = 0;  // 1 to 8: lanes that share an entry and gather from X itself; 0: lanes gather from a panel

  bool turned = true;  // panels are turned from token-major X (panel_row); otherwise columns lie in order
  panel::RowStore row_store = panel::RowStore::kSlots;  // staged: 16-bit values, half a slot each

  int sweep_columns = 0;  // with token lanes: tasks are ordered by blocks of so many columns; 0: they are not

  bool whole_rows() const { return row_store == panel::RowStore::kDirect || staged(); }
  bool staged() const { return row_store == panel::RowStore::kStaged; }
  bool adds() const { return row_store == panel::RowStore::kAdded; }  // a block processes all column parts
  bool gathers() const { return token_lanes > 0; }
  int lanes() const { return panel::kWarpLanes / (gathers() ? token_lanes : 1); }  // of a warp, with their own entries
  int segments() const { return lanes() / segment_lanes; }                         // segments of a task
  // The number of columns of a column part: a multiple of 8.
  std::int64_t width(std::int64_t cols) const;
  // "panel_r132_k1_w32_t4_l64_s2048_plain_turned", "panel_r132_k1_w32_t4_l64_s2048_gather2",
  // "panel_r8_k1_w32_t1_l128_s2048_gather8_sweep1024", "panel_r1_k6_w16_t2_l128_s8704_plain_turned_added"
  std::string name() const;
  bool operator==(const PanelPacking&) const = default;
};

// The least max_slots with which every matrix can be packed.
int least_slots(const PanelPacking& packing);

}  // namespace sparsmith
