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

  int entries() const { return kWordsPerLane / per_entry; }  // of a lane
  std::int64_t step() const { return std::int64_t{lanes} * kWordsPerLane; }
  std::uint32_t no_column() const { return per_entry == 1 ? kNoColumn16 : kNoColumn32; }
  std::uint32_t column(const std::uint32_t* entry) const { return per_entry == 1 ? entry[0] & 0xFFFFU : entry[0]; }
  std::uint32_t value(const std::uint32_t* entry) const { return per_entry == 1 ? entry[0] >> 16 : entry[1]; }
};

// Whether 16-bit columns can name each of `cols` columns and none.
constexpr bool fits_16_bits(std::int64_t cols) { return cols <= std::int64_t{kNoColumn16}; }

// token_lanes: PanelPacking's; 0: a panel, whose column parts always fit 16 bits.
constexpr StepWords step_words(DataType type, int token_lanes, std::int64_t cols) {
  const bool wide = type == DataType::kFloat32 || (token_lanes > 0 && !fits_16_bits(cols));
  return {kWarpLanes / (token_lanes > 0 ? token_lanes : 1), wide ? 2 : 1};
}

}  // namespace sparsmith::panel
