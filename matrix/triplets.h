// Matrices given element by element, in any order.
#pragma once

#include <cstdint>
#include <vector>

#include "matrix/csr_matrix.h"

namespace sparsmith {

struct Triplets {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::uint32_t> row_indices;     // each < rows
  std::vector<std::uint32_t> column_indices;  // each < cols
  std::vector<double> values;

  void add(std::int64_t row, std::int64_t column, double value) {
    row_indices.push_back(static_cast<std::uint32_t>(row));
    column_indices.push_back(static_cast<std::uint32_t>(column));
    values.push_back(value);
  }
};

// Elements at one position are summed in double; the sums are rounded to `type` and zeros dropped.
//   Error: kInvalidInput with the position of a value that is not finite in `type`.
Result<CsrMatrix> csr_from_triplets(const Triplets& triplets, DataType type);

}  // namespace sparsmith
