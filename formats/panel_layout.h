// The panel format as packer and kernels both see it. Freestanding: includes nothing.
//
// A kernel keeps a panel of X in shared memory: a row of 16 bytes (8 tokens of 16 bits, or 4 of 32) for each column
// of W. The weight is made for how a warp reads that panel: 32 lanes gather a panel row each, in four phases of 8
// lanes, and a phase is one shared-memory access exactly when its 8 rows differ in their index modulo 8.
//
//   column part  the columns [p * width, (p + 1) * width) of W; there is one when the panel of all K fits
//   part         consecutive rows of W with about the same nonzeros as any other: what a block works on at once
//   share        the steps of one warp in a part; all shares of a part are about equally long
//   task         consecutive steps of a share that work on the same segments, at most 32 / segment_lanes of them
//   segment      nonzeros of one row, in no particular order, that are summed in one go; it has a slot of the sums, or
//                stores its row
//   step         what a lane loads at once: four entries
//
// Arrays; `c` counts column parts, `p` parts, W warps, S segments a task:
//
//   entries     uint32[c][p][W][share_steps]: 16-bit values: [32 lanes][4] row of the panel | value << 16. 32-bit
//               values: [32 lanes][4] values' bits, then [32 lanes][2] rows of the panel, two to a word, the lower
//               half first. A lane's first row has kTaskEnd in the last step of a task. Behind the last share stand
//               kSpareSteps steps that are loaded and never used.
//   shares      Share[c][p][W]
//   task_slots  uint16[tasks + 1][S]: the slot of each segment of each task, in the order of shares, or kNoSlot; or
//               kWholeRow and the row of the part that is all in this segment
//   parts       Part[c][p]
//   row_slots   uint16[c][rows + parts]: row r of a part owns slots [row_slots[first_offset + r],
//               row_slots[first_offset + r + 1]) of the part's sums; kWholeRow in the first of them: its segment has
//               stored the row
//
// With kAdded a block goes through all column parts, and the sums of its part of the rows stay in their slots: row r
// has the same slots in all of them, as many as its segments in the column part where they are most, and tasks are
// whole.
//
// A lane without work reads one of the eight rows of zeros behind the panel with weight 0, so that it meets no Inf of
// X and, by its choice of the eight, no busy bank.
//
// A weight may also be packed for warps that gather rows of X itself, from global memory. A team of token lanes then
// takes the place of a lane, since its lanes share an entry and bring 16 bytes each of the row of X: a step has
// 32 / token_lanes times four words. Entries name columns of W and have no order that banks would ask for. There is
// one column part. 16-bit values share a word with their column up to a K of 32,767, four to a team's step; otherwise
// column and value have a word each, and tasks end with kWideTaskEnd. A team without work finds column K with weight 0:
// a row of zeros behind X, or no row at all. With sweep_columns, tasks come in the order of blocks of so many columns;
// a slot with kAddFlag then holds sums of its warp already, to be added to.
#pragma once

namespace sparsmith::panel {

constexpr int kWarpLanes = 32;
constexpr int kPhaseLanes = 8;
constexpr int kRowBytes = 16;
constexpr int kZeroRows = 8;
constexpr int kSpareSteps = 6;
constexpr unsigned int kNoSlot = 0xFFFF;
constexpr unsigned int kWholeRow = 0x8000;
constexpr int kMostWholeRows = 0x7FFF;             // of a part: none is taken for kNoSlot
constexpr unsigned int kTaskEnd = 0x8000;          // beside the row of the panel, or a 15-bit column
constexpr unsigned int kWideTaskEnd = 0x80000000;  // beside a column that has a word of its own
constexpr unsigned int kAddFlag = 0x8000;
constexpr int kMostRows = 0x8000;  // of a panel

// Where a task leaves a row that is all in it: in a slot, as the sums of others; in Y; or in shared memory, as it will
// be stored. kAdded: in a slot that holds sums of earlier column parts, to which those of the task are added.
enum class RowStore : unsigned char { kSlots, kDirect, kStaged, kAdded };

struct alignas(8) Share {
  unsigned int step_count;
  unsigned int first_task;
};

struct alignas(16) Part {
  unsigned int first_row;
  unsigned int row_count;
  unsigned int first_offset;
  unsigned int slot_count;
};

// (Functions here are the host's; snippets have their own of the same name, since CUDA wants theirs marked.)

// Where column c of a column part lies in a panel that is turned from token-major X. The permutation inside each 8 rows
// lets 8 lanes that transpose 8 columns each write their n-th columns to different banks. In other panels column c is
// row c.
constexpr int panel_row(int column) { return (column & ~7) | ((column ^ (column >> 3)) & 7); }
// panel_row is its own inverse.

// The rows of zeros begin at `width`, a multiple of 8.
constexpr long long panel_bytes(long long width) { return (width + kZeroRows) * kRowBytes; }

// Which segment of its task a lane works on, and whose lane's value it holds. kPlain: lanes in turn, and each its own.
// kTensor: such that values lie where the A operand of mma.m16n8k16 wants them, kSparseTensor, of 16 segments at most:
// where that of mma.sp.m16n8k32 does (snippets/reduction/tensor_products.cuh).
enum class LaneOrder : unsigned char { kPlain, kTensor, kSparseTensor };

// The order for tensor cores.
constexpr LaneOrder tensor_order(int segment_lanes) {
  return segment_lanes == 1 ? LaneOrder::kTensor : LaneOrder::kSparseTensor;
}

constexpr int segment_of_lane(LaneOrder order, int segments, int lane) {
  if (order == LaneOrder::kPlain) return lane % segments;
  const int phase = lane / kPhaseLanes;
  const int groups = segments / kPhaseLanes;
  const int group = order == LaneOrder::kTensor ? (lane + 2 * phase) % kPhaseLanes : lane % kPhaseLanes ^ phase / 2 * 4;
  return group * groups + phase % groups;
}

constexpr int value_lane(LaneOrder order, int lane) {
  if (order == LaneOrder::kPlain) return lane;
  const int group = lane / 4;
  const int pair = lane % 4;
  if (order == LaneOrder::kSparseTensor) {
    const int later = group / 4 != pair % 2 ? 1 : 0;  // of the two phases whose groups the pair holds
    return (pair / 2 + 2 * later) * kPhaseLanes + (group ^ later * 4);
  }
  return (group / 2 + 4 - pair) % 4 * kPhaseLanes + 2 * pair + group % 2;
}

}  // namespace sparsmith::panel
