// Outputs against the exact ones (design: from candidate to choice, step 4). See error_bound.h for the bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tuner/reference_problem.h"
#include "tuner/worker.h"

namespace sparsmith {

// What some of the outputs showed. The kernel of output_comparison.h writes the same structure.
struct OutputFindings {
  std::int64_t outputs = 0;
  std::int64_t wrong = 0;
  std::int64_t first_wrong = std::numeric_limits<std::int64_t>::max();  // row * columns + column of the first one
  double worst = 0;                                                     // error over bound; infinite for a NaN
  double squared_error = 0;
  double squared_reference = 0;

  void add(const OutputFindings& other);
};

// What is said of all outputs. `first_wrong`: the one that the findings name; any where none is wrong. `poisoned`: the
// X that made them, where the drawn one did not.
Verification verification_of(const ReferenceProblem& problem, const OutputFindings& findings, float first_wrong,
                             const PoisonedInput* poisoned = nullptr);

// Checks `y`, the whole output with its padding, as bytes of the operator's type: every output within its bound, and
// padding as it was in problem.initial_output(). `poisoned`: the X that made `y`, where the drawn one did not.
// `by_norm`: outputs count as allow_norm_error() says. REQUIRES: problem.has_reference().
Verification verify_outputs(const ReferenceProblem& problem, std::span<const std::byte> y,
                            const PoisonedInput* poisoned = nullptr, bool by_norm = false);

// How large the norm error of another library's output may be. Our bound holds for fp32 sums rounded once; a library
// that sums in 16 bits misses it and is still what its users get, so that its time counts. Above this limit it is
// wrong: for the 16-bit types four roundings of the output's size; for fp32 far more than fp32 sums have, far less than
// TF32 has.
double norm_error_limit(DataType type);
// A library's output that misses our bound is right where its norm error is within that limit.
void allow_norm_error(Verification& verification, DataType type);

}  // namespace sparsmith
