// Makes a page from results: selects the sections and their order.
#pragma once

#include <string>
#include <string_view>

#include "sparsmith/status.h"
#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// `title`: of the page; empty: it follows from the inputs.
Page report_page(const std::string& title, const ReportInputs& inputs);

// A summary for a terminal: geometric means, and a sparkline for each history. Empty without results.
std::string report_table(const ReportInputs& inputs);

// Writes the page of one run's results in JSON (report_input.h) to `path`, if it is not empty.
//   kind: "Tuning"; the page is titled "Tuning of model.safetensors".     source: a path, or another name.
//   Errors: as add_report_json(); kIoError.
Status write_page(const std::string& path, const std::string& kind, std::string_view json, const std::string& source);

}  // namespace sparsmith::tools
