// `sparsmith show --why`.
#pragma once

#include <string>

#include "runtime/tuned_file.h"

namespace sparsmith::tools {

// Prints the explanation of each choice (of `tokens`; 0: all), with what the cache at `cache` measured; empty: the
// default one, where it is there. Error: kIoError and kInvalidInput of a cache that was named; kUnsupported when this
// build knows none of the weight's packings.
Status print_why(const TunedContents& contents, const TunedWeight& weight, std::int64_t tokens,
                 const std::string& cache);

}  // namespace sparsmith::tools
