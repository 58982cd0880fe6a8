// Drawn matrices with at most two nonzeros in each aligned group of four columns.
#pragma once

#include <algorithm>

#include "tests/support/drawn_matrix.h"

namespace sparsmith::test {

// Of the two elements that a group may have, the share `filled` is there, at drawn places. Values as draw_matrix().
inline CsrMatrix draw_two_four(Random& random, std::int64_t rows, std::int64_t cols, double filled) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  std::bernoulli_distribution there(filled);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t group = 0; group < cols; group += 4) {
      const std::uint64_t width = static_cast<std::uint64_t>(std::min<std::int64_t>(4, cols - group));
      const std::uint64_t first = random() % width;
      const std::uint64_t second = (first + 1 + random() % 3) % width;
      for (const std::uint64_t place : {std::min(first, second), std::max(first, second)}) {
        if (!there(random)) continue;
        const auto column = static_cast<std::uint32_t>(group) + static_cast<std::uint32_t>(place);
        if (!matrix.column_indices.empty() && matrix.nnz() > matrix.row_offsets.back() &&
            matrix.column_indices.back() == column)
          continue;  // the group is narrow
        matrix.column_indices.push_back(column);
        matrix.values.push_back(float_from_fp16(static_cast<std::uint16_t>(1 + random() % 0x7BFF)));
      }
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace sparsmith::test
