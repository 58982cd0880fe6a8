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

// One gather of a warp: what each lane reads.
struct Gather {
  std::uint16_t panel_row[kWarpLanes];
  std::int64_t entry[kWarpLanes];  // nonzero of the matrix, or -1
};

// Deals the entries of a task to steps and lanes so that the 8 lanes of a phase meet different banks.
class TaskSchedule {
 public:
  TaskSchedule(const CsrMatrix& matrix, const PanelPacking& packing, const std::vector<std::uint32_t>& entries,
               const Task& task, int step_entries, std::int64_t first_column);

  // The next of the task's steps * step_entries gathers.
  Gather next();
  std::int64_t phases() const { return phases_; }  // so far

 private:
  struct Supply {  // what is left of a segment
    std::uint32_t next[kPhaseLanes];
    std::uint32_t end[kPhaseLanes];
    std::int64_t left = 0;
    std::int64_t room = 0;    // lanes that it is still given
    std::uint32_t banks = 0;  // that it has entries in
  };
  std::uint32_t take(Supply& supply, int bank);
  void fill_phase(int phase, Gather& gather);

  const CsrMatrix& matrix_;
  const std::vector<std::uint32_t>& entries_;
  std::int64_t first_column_;
  int zero_row_;
  int segment_of_[kWarpLanes];
  std::vector<Supply> supplies_;
  std::int64_t phases_ = 0;
};

}  // namespace sparsmith::panel
