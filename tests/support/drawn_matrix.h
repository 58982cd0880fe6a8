// Random numbers whose seed a failing test prints, and small sparse matrices of them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "base/ceil_div.h"
#include "base/half.h"
#include "matrix/csr_matrix.h"

namespace sparsmith::test {

using Random = std::mt19937_64;

// What SPARSMITH_TEST_SEED says, to repeat a run; otherwise another one each time.
inline std::uint64_t seed_of_run() {
  const char* given = std::getenv("SPARSMITH_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

// Random numbers from the seed of the run. As long as it lives, failures print it.
class DrawnRandom : public Random {
 public:
  DrawnRandom() : DrawnRandom(seed_of_run()) {}

 private:
  explicit DrawnRandom(std::uint64_t seed)
      : Random(seed), trace_(__FILE__, __LINE__, fmt::format("SPARSMITH_TEST_SEED={}", seed)) {}

  testing::ScopedTrace trace_;
};

// The share of a row's elements that are stored.
using RowDensity = std::function<double(std::int64_t row)>;

// Values are any positive numbers of fp16: exact in fp32 too.
inline CsrMatrix draw_matrix(Random& random, std::int64_t rows, std::int64_t cols, const RowDensity& density) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double share = density(row);
    std::geometric_distribution<std::int64_t> gap(share > 0 && share < 1 ? share : 0.5);
    const auto skipped = [&] { return share >= 1 ? 0 : gap(random); };
    for (std::int64_t column = share > 0 ? skipped() : cols; column < cols; column += 1 + skipped()) {
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(float_from_fp16(static_cast<std::uint16_t>(1 + random() % 0x7BFF)));
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

inline CsrMatrix draw_matrix(Random& random, std::int64_t rows, std::int64_t cols, double density) {
  return draw_matrix(random, rows, cols, [density](std::int64_t) { return density; });
}

// Fills about one in `share` of the aligned blocks of so many rows and columns.
inline CsrMatrix fill_blocks(Random& random, const CsrMatrix& matrix, std::int64_t block, std::uint64_t share) {
  CsrMatrix filled;
  filled.rows = matrix.rows;
  filled.cols = matrix.cols;
  filled.data_type = matrix.data_type;
  std::vector<bool> full(static_cast<std::size_t>(ceil_div(matrix.cols, block)));  // of a band of rows
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    if (row % block == 0) std::generate(full.begin(), full.end(), [&] { return random() % share == 0; });
    std::int64_t i = matrix.row_offsets[row];
    for (std::int64_t column = 0; column < matrix.cols; ++column) {
      const bool held = i < matrix.row_offsets[row + 1] && matrix.column_indices[i] == column;
      if (!held && !full[static_cast<std::size_t>(column / block)]) continue;
      filled.column_indices.push_back(static_cast<std::uint32_t>(column));
      filled.values.push_back(held ? matrix.values[i] : static_cast<float>(1 + random() % 2047) / 1024.0F - 1.0F);
      i += held ? 1 : 0;
    }
    filled.row_offsets.push_back(filled.nnz());
  }
  return filled;
}

// Rows of very different lengths: full, nearly empty with long gaps, empty, and in between.
inline CsrMatrix draw_uneven_matrix(Random& random, std::int64_t rows, std::int64_t cols) {
  return draw_matrix(random, rows, cols, [&random](std::int64_t) {
    switch (random() % 8) {
      case 0: return 1.0;
      case 1: return 0.0;
      case 2: return 0.004;
      default: return static_cast<double>(random() % 500) / 1000;
    }
  });
}

}  // namespace sparsmith::test
