// The performance history as JSON and as pages.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "history/comparison.h"
#include "history/series.h"
#include "tools/report/page.h"

namespace sparsmith::tools {

// Every case over commits: {"history":[{"case",...,"points":[...],"changes":[...]}]}.
nlohmann::json history_json(const std::vector<PerfSeries>& all);

// The page of two commits: the change of every case with its interval, and for changed cases the times and the cause.
Page comparison_page(const Comparison& comparison);

// "NVIDIA H200, driver 580, NVRTC 13.0, 1980 MHz".
std::string environment_text(const PerfEnvironment& environment);

}  // namespace sparsmith::tools
