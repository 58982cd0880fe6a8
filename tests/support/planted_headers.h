// The snippets of a build with -DSPARSMITH_PLANTS=ON (tests/support/plant.h).
#pragma once

#include <span>

#include "generator/catalogue.h"

namespace sparsmith {

// `headers`, or where Plant::kSlowSnippet is planted, the same with a slower snippets/reduction/slot_sums.cuh. They
// live for good.
std::span<const SnippetHeader> planted_headers(std::span<const SnippetHeader> headers);

}  // namespace sparsmith
