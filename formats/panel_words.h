// How many words of the entries array a step and its parts take.
#pragma once

#include <cstdint>

#include "formats/panel_layout.h"
#include "sparsmith/data_type.h"

namespace sparsmith::panel {

constexpr int kWordsPerLane = 4;
constexpr std::int64_t kStepWords = std::int64_t{kWarpLanes} * kWordsPerLane;
constexpr std::int64_t kMostSlots = 65534;

inline int words_per_entry(DataType type) { return type == DataType::kFloat32 ? 2 : 1; }
inline int step_entries(DataType type) { return kWordsPerLane / words_per_entry(type); }

}  // namespace sparsmith::panel
