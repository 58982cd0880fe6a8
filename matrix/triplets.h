// Matrices as lists of elements in any order.
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

  void reserve(std::int64_t elements) {
    row_indices.reserve(elements);
    column_indices.reserve(elements);
    values.reserve(elements);
  }
  void add(std::int64_t row, std::int64_t column, double value) {
    row_indices.push_back(static_cast<std::uint32_t>(row));
    column_indices.push_back(static_cast<std::uint32_t>(column));
    values.push_back(value);
  }
};

// Elements at the same position are summed in double. The sums are rounded to `type`. Zeros are dropped.
//   Error: kInvalidInput with the position of a value that is not finite in `type`.
Result<CsrMatrix> csr_from_triplets(const Triplets& triplets, DataType type);

}  // namespace sparsmith
