// The JSON output of a tuning run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "tools/commands/tune_settings.h"

namespace sparsmith::tools {

// {"device":{...},"weights":[{...,"choices":[...]}],"skipped":[...],"counts":{...},...}
nlohmann::json tuning_json(const TuneOutcome& outcome);

// Rejections as an array.
nlohmann::json rejections_json(std::span<const Rejection> rejections);

}  // namespace sparsmith::tools
