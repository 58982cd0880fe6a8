// Comparison of outputs with the exact outputs (design: from candidate to choice, step 4). error_bound.h has the bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tuner/verify/reference_problem.h"

namespace sparsmith {

// The result of a comparison with fp64.
struct Verification {
  bool ok = false;
  double max_error_over_bound = 0;  // <= 1 when ok
  double norm_error = 0;            // ||y - ref|| / ||ref||
  std::string reason;               // empty when ok: "y[3][17] = nan, expected 0.25 +- 1e-3", "wrote past the end of y"
};

// Findings from a part of the outputs. The kernel of device_problem.h writes the same structure.
struct OutputFindings {
  std::int64_t outputs = 0;
  std::int64_t wrong = 0;
  std::int64_t first_wrong = std::numeric_limits<std::int64_t>::max();  // its row * columns + column
  double worst = 0;                                                     // error over bound; infinite for a NaN
  double squared_error = 0;
  double squared_reference = 0;

  void add(const OutputFindings& other);
};

// The result from the findings of all outputs. `first_wrong`: the value of the first wrong output; any value when no
// output is wrong. `poisoned`: the poisoned X of the run; null for the drawn X.
Verification verification_of(const ReferenceProblem& problem, const OutputFindings& findings, float first_wrong,
                             const PoisonedInput* poisoned = nullptr);

// Checks `y`, the whole output with its padding, as bytes of the operator's type. Every output must be within its
// bound, and the padding must be as in problem.initial_output(). `poisoned`: the poisoned X of the run; null for the
// drawn X. `by_norm`: applies allow_norm_error(). REQUIRES: problem.has_reference().
Verification verify_outputs(const ReferenceProblem& problem, std::span<const std::byte> y,
                            const PoisonedInput* poisoned = nullptr, bool by_norm = false);

// The largest permitted norm error of another library's output. Our bound is for fp32 sums that are rounded once. A
// library that sums in 16 bits exceeds the bound, but its users accept such outputs, so its time counts. The limit is
// four roundings of the output's size for the 16-bit types. For fp32 it is far above the error of fp32 sums and far
// below the error of TF32.
double norm_error_limit(DataType type);
// Accepts a library's output that exceeds our bound when its norm error is within that limit.
void allow_norm_error(Verification& verification, DataType type);

}  // namespace sparsmith
