// A tuned file as a page shows it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/tuned_file.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// Does this file say of itself that it is a tuned one? Tuned files are safetensors, as weights are. False where it is
// neither.
bool says_tuned(std::span<const std::byte> file);

// Its choices, with what the file says of dense and of their evidence.
TuningResults tuned_results(const TunedContents& contents, const std::string& source);

}  // namespace sparsmith::tools
