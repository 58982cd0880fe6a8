// Times of commits, as git prints them.
#pragma once

#include <string>
#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

// "2026-01-02T03:04:05+02:00" (ISO 8601 with an offset or Z, as %cI of git prints) in UTC, "2026-01-02T01:04:05Z", so
// that texts are in the order of times. Error: kInvalidArgument.
Result<std::string> utc_of(std::string_view text);

}  // namespace sparsmith
