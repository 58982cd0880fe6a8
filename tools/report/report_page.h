// From what was read to the page: which sections there are, and in which order.
#pragma once

#include <string>

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

Page report_page(const std::string& title, const ReportInputs& inputs);

}  // namespace sparsmith::tools
