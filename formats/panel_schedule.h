// Schedules the entries of a task as gathers: which lane reads which panel row in which step. The lanes of a
// shared-memory access meet different banks.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/panel_tasks.h"

namespace sparsmith::panel {

// One gather of a warp: the panel row and the nonzero of each lane.
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
  struct Supply {  // the remaining entries of a segment
    std::uint32_t next[kPhaseLanes];
    std::uint32_t end[kPhaseLanes];
    std::int64_t left = 0;
    std::int64_t room = 0;    // lanes that the segment still gets
    std::uint32_t banks = 0;  // banks in which it has entries
  };
  std::uint32_t take(Supply& supply, int bank);
  void fill_phase(int phase, Gather& gather);

  const CsrMatrix& matrix_;
  const PanelPacking& packing_;
  const std::vector<std::uint32_t>& entries_;
  std::int64_t first_column_;
  int zero_row_;
  int segment_of_[kWarpLanes];
  std::vector<Supply> supplies_;
  std::int64_t phases_ = 0;
};

}  // namespace sparsmith::panel
