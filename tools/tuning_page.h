// A tuning run as a page.
#pragma once

#include <string>

#include "tools/tune_settings.h"

namespace sparsmith::tools {

// Writes the report page of `outcome` to `path`. `file`: what was tuned, for its titles. Error: kIoError.
Status write_tuning_page(const std::string& path, const TuneOutcome& outcome, const std::string& file);

}  // namespace sparsmith::tools
