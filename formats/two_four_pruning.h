// Weights that are pruned 2:4 along rows and columns, so that sparse tensor cores multiply them and their transpose.
#pragma once

#include <cstdint>
#include <span>

#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

// Error: kInvalidArgument unless both are multiples of 4, from 4 on.
Status check_prunable(std::int64_t rows, std::int64_t cols);

// Of `weight`, [rows][cols], two elements of each row and of each column of an aligned 4 x 4 tile: those of the pattern
// with the greatest sum of magnitudes (two_four_tiles_layout.h). Kept elements that are 0 stay as explicit zeros. A
// tile with an element that is not finite keeps some pattern.
//   Error: that of check_prunable().
Result<CsrMatrix> prune_two_four(std::span<const float> weight, std::int64_t rows, std::int64_t cols);

}  // namespace sparsmith
