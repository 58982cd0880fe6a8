// What a report page shows, in short, for a terminal: geometric means, and a sparkline for each history.
#pragma once

#include <string>

#include "tools/report/results.h"

namespace sparsmith::tools {

// Empty where there is nothing to sum up.
std::string report_table(const ReportInputs& inputs);

}  // namespace sparsmith::tools
