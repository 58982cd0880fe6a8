// A tuning run for programs.
#pragma once

#include <string>

#include "tools/tune_settings.h"

namespace sparsmith::tools {

// {"device":{...},"weights":[{...,"choices":[...]}],"skipped":[...],"counts":{...},...}, one line.
std::string json_of(const TuneOutcome& outcome);

}  // namespace sparsmith::tools
