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

// The bank, of eight, in which a nonzero finds its column's panel row.
inline int bank_of(const CsrMatrix& matrix, std::uint32_t entry, std::int64_t first_column) {
  return panel_row(static_cast<int>(matrix.column_indices[entry] - first_column)) % kPhaseLanes;
}

// What a block has to do for some rows of one column part.
struct PartTasks {
  std::vector<std::uint32_t> entries;     // nonzeros of the matrix
  std::vector<std::vector<Task>> shares;  // [warps]
  std::vector<std::uint16_t> row_slots;   // [row_count + 1]
  std::uint32_t most_steps = 0;           // of a share
};

// Rows [first_row, last_row) and columns [first_column, first_column + width) of the matrix.
PartTasks make_tasks(const CsrMatrix& matrix, const PanelPacking& packing, int step_entries, std::int64_t first_row,
                     std::int64_t last_row, std::int64_t first_column);

// Segments that a row of `length` nonzeros is cut into.
std::int64_t segment_count(std::int64_t length, const PanelPacking& packing);

}  // namespace sparsmith::panel
