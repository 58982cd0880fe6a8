// What `ptxas -v` says of a kernel.
#pragma once

#include <string_view>

#include "base/ptxas_figures.h"
#include "sparsmith/status.h"

namespace sparsmith {

// Reads the figures of the entry function `kernel` from a compiler's log. Error: kInvalidInput when the log has no
// such entry, or an entry without its registers.
Result<PtxasFigures> parse_ptxas_log(std::string_view log, std::string_view kernel);

}  // namespace sparsmith
