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

// How large the norm error of another library's output may be. Our bound holds for fp32 sums rounded once; a library
// that sums in 16 bits misses it and is still what its users get, so that its time counts. Above this limit it is
// wrong: for the 16-bit types four roundings of the output's size; for fp32 far more than fp32 sums have, far less than
// TF32 has.
double norm_error_limit(DataType type);

}  // namespace sparsmith
