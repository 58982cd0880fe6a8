// The performance history as pages.
#pragma once

#include <vector>

#include "history/comparison.h"
#include "history/series.h"
#include "tools/report/page.h"

namespace sparsmith::tools {

// Every case over commits. `source`: of the history, for the title.
Page history_page(const std::string& source, const std::vector<PerfSeries>& all);

// Two commits: the change of every case with its interval, what both sides measured of those that changed, and why.
Page comparison_page(const Comparison& comparison);

// "NVIDIA H200, driver 580, NVRTC 13.0, 1980 MHz".
std::string environment_text(const PerfEnvironment& environment);

}  // namespace sparsmith::tools
