// Outputs against the exact ones (design: from candidate to choice, step 4). See error_bound.h for the bound.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tuner/reference_problem.h"
#include "tuner/worker.h"

namespace sparsmith {

// Checks `y`, the whole output with its padding, as bytes of the operator's type: every output within its bound, and
// padding as it was in problem.initial_y(). `rows`, where given, names the rows to look at ([M]).
// REQUIRES: problem.has_reference().
Verification verify_outputs(const ReferenceProblem& problem, std::span<const std::byte> y,
                            const std::vector<bool>* rows = nullptr);

}  // namespace sparsmith
