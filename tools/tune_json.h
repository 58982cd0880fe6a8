// A tuning run for programs, and as a page.
#pragma once

#include <string>

#include "tools/tune_settings.h"

namespace sparsmith::tools {

// Prints {"device":{...},"weights":[{...,"choices":[...]}],"skipped":[...],"counts":{...},...}, one line.
void print_json(const TuneOutcome& outcome);

// The same as a report page. `file`: what was tuned, for its titles. Error: kIoError.
Status write_tuning_page(const std::string& path, const TuneOutcome& outcome, const std::string& file);

}  // namespace sparsmith::tools
