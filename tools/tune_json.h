// A tuning run for programs.
#pragma once

#include <string>

#include "tools/tune_settings.h"

namespace sparsmith::tools {

// Prints {"device":{...},"weights":[{...,"choices":[...]}],"skipped":[...],"counts":{...},...}, one line.
void print_json(const TuneOutcome& outcome);
std::string json_text(const TuneOutcome& outcome);

}  // namespace sparsmith::tools
