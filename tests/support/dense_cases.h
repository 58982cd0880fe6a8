// Drawn cases of dense products and the kernel behind them.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/kernel_cases.h"

namespace sparsmith::test {

// Every type, layout and activation, with drawn bias, beta and residual; `weights` weights each, as kernels' cases have
// them. Configs are empty.
std::vector<KernelCase> draw_dense_epilogue_cases(std::uint64_t seed, int weights);

// The gradient of a weight at its pattern, by a dense product, for run_case(). Every type and layout, with beta and
// without.
std::vector<KernelCase> draw_dense_gradient_cases(std::uint64_t seed, int weights);

// As run_case().
Status run_dense_epilogue_case(const KernelCase& test_case, Executor& executor, const ImageOf& image_of);

}  // namespace sparsmith::test
