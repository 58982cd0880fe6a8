// The panel format, for the packer and the kernels. Freestanding: includes nothing.
//
// A kernel keeps a panel of X in shared memory: a row of 16 bytes (8 tokens of 16 bits, or 4 of 32) for each column of
// W. The format follows from how a warp reads that panel: each of 32 lanes gathers a panel row, in four phases of 8
// lanes. A phase is a single shared-memory access exactly when its 8 rows differ in their index modulo 8.
//
//   column part  the columns [p * width, (p + 1) * width) of W; there is one if the panel of all K fits
//   part         consecutive rows of W, which a block processes at once; all parts have about equally many nonzeros
//   share        the steps of one warp in a part; all shares of a part are about equally long
//   task         consecutive steps of a share that work on the same segments, at most 32 / segment_lanes of them
//   segment      nonzeros of one row, in no particular order, that are summed in one go; a segment has a slot of the
//                sums, or stores its row
//   step         what a lane loads at once: four entries
//
// Arrays; `c` counts column parts, `p` parts; W is the number of warps, S the number of segments of a task:
//
//   entries     uint32[c][p][W][share_steps]: 16-bit values: [32 lanes][4] row of the panel | value << 16. 32-bit
//               values: [32 lanes][4] values' bits, then [32 lanes][2] rows of the panel, two per word, the lower
//               half first. A lane's first row has kTaskEnd in the last step of a task. Behind the last share stand
//               kSpareSteps steps that kernels load and never use.
//   shares      Share[c][p][W]
//   task_slots  uint16[tasks + 1][S]: the slot of each segment of each task, in the order of shares, or kNoSlot. Or
//               kWholeRow and the row of the part, if this segment holds the whole row
//   parts       Part[c][p]
//   row_slots   uint16[c][rows + parts]: row r of a part owns slots [row_slots[first_offset + r],
//               row_slots[first_offset + r + 1]) of the part's sums. If the first of the two has kWholeRow, the row's
//               segment has stored the row
//
// With kAdded, a block processes all column parts, and the sums of its rows stay in their slots. A row has the same
// slots in all column parts: as many as its segments in the column part where it has most. Tasks are whole.
//
// A lane without work reads one of the eight rows of zeros behind the panel, with weight 0. So it meets no Inf of X.
// The choice among the eight rows avoids busy banks.
//
// A weight may also be packed for warps that gather rows of X itself, from global memory. A team of token lanes then
// takes the place of a lane: its lanes share an entry, and each brings 16 bytes of the row of X. A step has 32 /
// token_lanes times four words. Entries name columns of W; their order does not consider banks. There is one column
// part. 16-bit values share a word with their column up to a K of 32,767, and a team's step has four entries. Otherwise
// column and value have a word each, and tasks end with kWideTaskEnd. A team without work finds column K with weight 0:
// a row of zeros behind X, or no row at all. With sweep_columns, tasks are ordered by blocks of so many columns. A slot
// with kAddFlag then already holds sums of the same warp, and the task's sums are added to them.
#pragma once

namespace sparsmith::panel {

constexpr int kWarpLanes = 32;
constexpr int kPhaseLanes = 8;
constexpr int kRowBytes = 16;
constexpr int kZeroRows = 8;
constexpr int kSpareSteps = 6;
constexpr unsigned int kNoSlot = 0xFFFF;
constexpr unsigned int kWholeRow = 0x8000;
constexpr int kMostWholeRows = 0x7FFF;             // whole rows of a part: so no row can equal kNoSlot
constexpr unsigned int kTaskEnd = 0x8000;          // beside the row of the panel, or a 15-bit column
constexpr unsigned int kWideTaskEnd = 0x80000000;  // beside a column with a word of its own
constexpr unsigned int kAddFlag = 0x8000;
constexpr int kMostRows = 0x8000;  // rows of a panel

// Where a task leaves a row that is entirely in it. kSlots: in a slot, as it leaves the sums of other rows. kDirect: in
// Y. kStaged: in shared memory, in the form in which it will be stored. kAdded: in a slot with the sums of earlier
// column parts, to which the task's sums are added.
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

// (These functions are for the host. Snippets have their own of the same name, because CUDA needs its qualifiers.)

// The row of column c of a column part in a panel that is turned from token-major X. When 8 lanes transpose 8 columns
// each, the permutation inside each 8 rows lets them write their n-th columns to different banks. In other panels,
// column c is row c.
constexpr int panel_row(int column) { return (column & ~7) | ((column ^ (column >> 3)) & 7); }
// panel_row is its own inverse.

// The rows of zeros begin at `width`, a multiple of 8.
constexpr long long panel_bytes(long long width) { return (width + kZeroRows) * kRowBytes; }

// The segment of its task that a lane works on, and the lane whose value it holds. kPlain: segments in turn, and each
// lane holds its own value. kTensor: values lie where the A operand of mma.m16n8k16 needs them. kSparseTensor, of at
// most 16 segments: where the A operand of mma.sp.m16n8k32 needs them (snippets/reduction/tensor_products.cuh).
enum class LaneOrder : unsigned char { kPlain, kTensor, kSparseTensor };

// The lane order for tensor cores.
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
