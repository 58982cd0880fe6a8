// What a report page shows, in short, for a terminal: geometric means, and a sparkline for each history.
#pragma once

#include <string>
#include <vector>

#include "tools/report/results.h"

namespace sparsmith::tools {

// One letter a value, from the lowest bar to the highest: "▁▃█". More than `width` values are averaged in groups.
// Values that are not finite become blanks.
std::string sparkline(const std::vector<double>& values, std::size_t width);

// Empty where there is nothing to sum up.
std::string report_table(const ReportInputs& inputs);

}  // namespace sparsmith::tools
