// Makes tasks of the rows of a part: rows become segments, segments become groups that share banks well, groups become
// tasks, and tasks go to warps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "formats/packed_weight.h"
#include "formats/panel.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith::panel {

// Nonzeros of one row: entries [first, first + length) of PartTasks::entries, ordered by the bank they meet.
struct Segment {
  std::uint32_t row = 0;  // from the part's first
  std::uint32_t first = 0;
  std::uint32_t length = 0;
  std::uint16_t slot = static_cast<std::uint16_t>(kNoSlot);
};

struct Task {
  std::vector<Segment> segments;  // in the numbering of segment_of_lane(); segments of length 0 are idle
  std::uint32_t steps = 0;
};

// The panel row of a nonzero's column.
inline int row_of(const CsrMatrix& matrix, const PanelPacking& packing, std::uint32_t entry,
                  std::int64_t first_column) {
  const int column = static_cast<int>(matrix.column_indices[entry] - first_column);
  return packing.turned ? panel_row(column) : column;
}
// The bank, of eight, in which a nonzero finds its panel row.
inline int bank_of(const CsrMatrix& matrix, const PanelPacking& packing, std::uint32_t entry,
                   std::int64_t first_column) {
  return row_of(matrix, packing, entry, first_column) % kPhaseLanes;
}

// The work of a block on some rows of one column part.
struct PartTasks {
  std::vector<std::uint32_t> entries;     // nonzeros of the matrix
  std::vector<std::vector<Task>> shares;  // [warps]
  std::vector<std::uint16_t> row_slots;   // [row_count + 1]
  std::uint32_t slot_count = 0;
  std::uint32_t most_steps = 0;  // of a share
};

// Longest first; equally long segments keep their order.
inline void sort_by_length(std::vector<Segment>& segments) {
  std::ranges::stable_sort(segments, std::greater<>(), &Segment::length);
}

// The rows at which parts begin, and the end: [parts + 1]. Parts have about equal cost, and sums that fit. Empty if
// more than `most_parts` are needed. row_segments: if sums are added, the slots of every row.
std::vector<std::int64_t> part_bounds(std::span<const std::int64_t> row_offsets, const PanelPacking& packing,
                                      std::span<const std::uint16_t> row_segments, std::int64_t most_parts);

// The tasks of rows [first_row, last_row) and columns [first_column, first_column + width) of the matrix. row_segments:
// if sums are added, the slots of every row of the matrix.
PartTasks make_tasks(const CsrMatrix& matrix, const PanelPacking& packing, int step_entries, std::int64_t first_row,
                     std::int64_t last_row, std::int64_t first_column, std::span<const std::uint16_t> row_segments);

// Makes the shares and slots of a part in the order of columns, for warps that gather rows of X through L1. All warps
// of a block work on the same columns at the same time, so a row of X that one warp has loaded is in L1 for the others.
// Pieces are dealt to warps once, evenly. A warp then goes through blocks of packing.sweep_columns columns, and in each
// block through the entries that its pieces have there. A piece has one slot; all its tasks but the first add to it
// (kAddFlag). No other warp does, so the order of additions is always the same.
//   pieces: in the order of rows, each with its entries ascending by column.       rows: the rows of the part.
void sweep(const CsrMatrix& matrix, const PanelPacking& packing, int step_entries, std::int64_t rows,
           std::vector<Segment> pieces, PartTasks& part);

// The facts that follow from the packing alone.
Facts facts_of(const PanelPacking& packing, std::int64_t cols);
// Adds facts and arrays. Error: kInvalidArgument for a matrix of 2^32 nonzeros.
Status pack(const CsrMatrix& matrix, const PanelPacking& packing, DataType type, PackedWeight& packed);

// The number of segments into which a row of `length` nonzeros is cut.
std::int64_t segment_count(std::int64_t length, const PanelPacking& packing);
// The number of slots of a row with so many segments.
inline std::int64_t slot_count(std::int64_t segments, const PanelPacking& packing) {
  return packing.whole_rows() && segments == 1 ? 0 : segments;
}
// The number of slots that staged rows take until they are stored.
inline std::int64_t staged_slots(std::int64_t rows, const PanelPacking& packing) {
  return packing.staged() ? (rows + 1) / 2 : 0;
}
// The most slots that a part has in addition. A share that begins in the middle of a task cuts each of its segments.
inline std::int64_t cut_slots(const PanelPacking& packing) {
  if (packing.adds()) return 0;
  return std::int64_t{packing.warps} * packing.segments() * (packing.whole_rows() ? 2 : 1);
}

}  // namespace sparsmith::panel
