// How the rows of a part become tasks: rows to segments, segments to groups that share banks well, groups to tasks,
// tasks to warps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/panel.h"

namespace sparsmith::panel {

// Nonzeros of one row: entries [first, first + length) of PartTasks::entries, ordered by the bank they meet.
struct Segment {
  std::uint32_t row = 0;  // from the part's first
  std::uint32_t first = 0;
  std::uint32_t length = 0;
  std::uint16_t slot = static_cast<std::uint16_t>(kNoSlot);
};

struct Task {
  std::vector<Segment> segments;  // as segment_of_lane counts them; those of length 0 are idle
  std::uint32_t steps = 0;
};

// The panel row of a nonzero's column.
inline int row_of(const CsrMatrix& matrix, const PanelPacking& packing, std::uint32_t entry,
                  std::int64_t first_column) {
  const int column = static_cast<int>(matrix.column_indices[entry] - first_column);
  return packing.turned ? panel_row(column) : column;
}
// The bank, of eight, in which a nonzero finds it.
inline int bank_of(const CsrMatrix& matrix, const PanelPacking& packing, std::uint32_t entry,
                   std::int64_t first_column) {
  return row_of(matrix, packing, entry, first_column) % kPhaseLanes;
}

// What a block has to do for some rows of one column part.
struct PartTasks {
  std::vector<std::uint32_t> entries;     // nonzeros of the matrix
  std::vector<std::vector<Task>> shares;  // [warps]
  std::vector<std::uint16_t> row_slots;   // [row_count + 1]
  std::uint32_t slot_count = 0;
  std::uint32_t most_steps = 0;  // of a share
};

// The rows at which parts begin, and the end: [parts + 1]. Parts have about equal cost, and sums that fit; nothing
// where there would be more than `most_parts`. row_segments: where sums are added, the slots of every row.
std::vector<std::int64_t> part_bounds(std::span<const std::int64_t> row_offsets, const PanelPacking& packing,
                                      std::span<const std::uint16_t> row_segments, std::int64_t most_parts);

// Rows [first_row, last_row) and columns [first_column, first_column + width) of the matrix. row_segments: where sums
// are added, the slots of every row of the matrix.
PartTasks make_tasks(const CsrMatrix& matrix, const PanelPacking& packing, int step_entries, std::int64_t first_row,
                     std::int64_t last_row, std::int64_t first_column, std::span<const std::uint16_t> row_segments);

// Segments that a row of `length` nonzeros is cut into.
std::int64_t segment_count(std::int64_t length, const PanelPacking& packing);
// Slots that a row of so many segments takes.
inline std::int64_t slot_count(std::int64_t segments, const PanelPacking& packing) {
  return packing.whole_rows() && segments == 1 ? 0 : segments;
}
// Slots that rows take by waiting to be stored.
inline std::int64_t staged_slots(std::int64_t rows, const PanelPacking& packing) {
  return packing.staged() ? (rows + 1) / 2 : 0;
}
// Slots that a part takes beyond those, at most: a share that begins in the middle of a task cuts each of its segments.
inline std::int64_t cut_slots(const PanelPacking& packing) {
  if (packing.adds()) return 0;
  return std::int64_t{packing.warps} * packing.segments() * (packing.whole_rows() ? 2 : 1);
}

}  // namespace sparsmith::panel
