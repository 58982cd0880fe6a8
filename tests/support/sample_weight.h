// A small drawn weight with its packing for the fake executor, for tests.
#pragma once

#include <random>
#include <string>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "runtime/operator_spec.h"

namespace sparsmith {

inline CsrMatrix sample_weight(std::int64_t rows, std::int64_t cols, double density, std::uint32_t seed) {
  std::mt19937 random(seed);
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < cols; ++column) {
      if (static_cast<double>(random() % 10000) >= density * 10000) continue;
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(0.25F + static_cast<float>(random() % 1000) * 0.001F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

inline OperatorSpec sample_spec(const CsrMatrix& matrix, DataType type, Layout layout,
                                const std::string& epilogue = "none") {
  return {.rows = matrix.rows,
          .cols = matrix.cols,
          .type = type,
          .layout = layout,
          .epilogue = Epilogue::parse(epilogue).value()};
}

// In fp32, token-major.
inline OperatorSpec sample_spec(const CsrMatrix& matrix, const std::string& epilogue = "none") {
  return sample_spec(matrix, DataType::kFloat32, Layout::kTokenMajor, epilogue);
}

inline PackedWeight sample_packing(const CsrMatrix& matrix) {
  const auto array = [](const char* name, DataType type, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return PackedArray{name, type, {bytes.begin(), bytes.end()}};
  };
  const std::vector<std::int32_t> offsets(matrix.row_offsets.begin(), matrix.row_offsets.end());
  PackedWeight packed;
  packed.packing = "sample";
  packed.rows = matrix.rows;
  packed.cols = matrix.cols;
  packed.nnz = matrix.nnz();
  packed.arrays = {array("row_offsets", DataType::kInt32, offsets),
                   array("columns", DataType::kUint32, matrix.column_indices),
                   array("values", DataType::kFloat32, matrix.values)};
  packed.facts["segments"] = 3;
  return packed;
}

}  // namespace sparsmith
