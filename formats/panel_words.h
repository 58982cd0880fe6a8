// How many words of the entries array a step and its parts take.
#pragma once

#include <cstdint>

#include "formats/panel_layout.h"
#include "sparsmith/data_type.h"

namespace sparsmith::panel {

constexpr int kWordsPerLane = 4;
constexpr std::int64_t kMostSlots = 65534;

struct StepWords {
  int lanes;      // with entries of their own
  int per_entry;  // 1: the column in the low half, the value in the high half; 2: a word for each
  std::uint32_t task_end;

  int entries() const { return kWordsPerLane / per_entry; }  // of a lane
  std::int64_t step() const { return std::int64_t{lanes} * kWordsPerLane; }
  // Of an entry, whether or not it is the one that says where a task ends.
  std::uint32_t column(const std::uint32_t* entry) const {
    return (per_entry == 1 ? entry[0] & 0xFFFFU : entry[0]) & ~task_end;
  }
  std::uint32_t value(const std::uint32_t* entry) const { return per_entry == 1 ? entry[0] >> 16 : entry[1]; }
  // Of a gather, kNoEntry.
  bool is_none(const std::uint32_t* entry) const {
    return per_entry == 1 ? (entry[0] & ~task_end) == kNoEntry : entry[1] == kNoEntry;
  }
};

// token_lanes: PanelPacking's; 0: a panel, whose column parts always fit 15 bits.
constexpr StepWords step_words(DataType type, int token_lanes, std::int64_t cols) {
  if (token_lanes == 0) return {kWarpLanes, type == DataType::kFloat32 ? 2 : 1, kTaskEnd};
  const bool wide = type == DataType::kFloat32 || cols > std::int64_t{kTaskEnd};
  return {kWarpLanes / token_lanes, wide ? 2 : 1, wide ? kWideTaskEnd : kTaskEnd};
}

}  // namespace sparsmith::panel
