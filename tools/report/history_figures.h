// Figures of performance over commits: medians with their bands, and where the level changes.
#pragma once

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

Section history_section(const PerformanceHistory& history);

}  // namespace sparsmith::tools
