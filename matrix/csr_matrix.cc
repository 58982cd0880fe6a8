#include "matrix/csr_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/half.h"
#include "base/hash.h"

namespace sparsmith {
namespace {

template <class T>
std::string hash_vector(const std::vector<T>& values) {
  return hash_bytes(std::as_bytes(std::span(values)));
}

Status validate_row(const SparsityPattern& pattern, std::int64_t row) {
  std::int64_t previous = -1;
  for (std::int64_t i = pattern.row_offsets[row]; i < pattern.row_offsets[row + 1]; ++i) {
    const std::int64_t column = pattern.column_indices[i];
    if (column >= pattern.cols) {
      return invalid_input(fmt::format("row {}: column {} is outside of {} columns", row, column, pattern.cols));
    }
    if (column <= previous) {
      return invalid_input(fmt::format("row {}: column {} follows column {}; they must ascend", row, column, previous));
    }
    previous = column;
  }
  return {};
}

bool is_storable(float value) { return std::isfinite(value) && (value != 0.0F || !std::signbit(value)); }

}  // namespace

double SparsityPattern::sparsity() const {
  if (rows == 0 || cols == 0) return 0;
  return 1.0 - static_cast<double>(nnz()) / (static_cast<double>(rows) * static_cast<double>(cols));
}

Status SparsityPattern::validate() const {
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(rows, cols));
  if (row_offsets.size() != static_cast<std::size_t>(rows) + 1) {
    return invalid_input(fmt::format("{} row offsets for {} rows; there must be one more", row_offsets.size(), rows));
  }
  if (row_offsets.front() != 0)
    return invalid_input(fmt::format("the first row offset is {}, not 0", row_offsets.front()));
  if (row_offsets.back() != nnz()) {
    return invalid_input(fmt::format("the last row offset is {} with {} nonzeros", row_offsets.back(), nnz()));
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row_length(row) < 0) return invalid_input(fmt::format("row {}: the row offsets decrease", row));
  }
  for (std::int64_t row = 0; row < rows; ++row) SPARSMITH_RETURN_IF_ERROR(validate_row(*this, row));
  return {};
}

Status CsrMatrix::validate() const {
  SPARSMITH_RETURN_IF_ERROR(SparsityPattern::validate());
  if (values.size() != column_indices.size()) {
    return invalid_input(fmt::format("{} values for {} column indices", values.size(), column_indices.size()));
  }
  const auto wrong = std::ranges::find_if_not(values, is_storable);
  if (wrong == values.end()) return {};
  const auto row = std::ranges::upper_bound(row_offsets, wrong - values.begin()) - row_offsets.begin() - 1;
  return invalid_input(
      fmt::format("row {}, column {}: value is {}", row, column_indices[wrong - values.begin()], *wrong));
}

std::string SparsityPattern::pattern_hash() const {
  return pattern_hash_of(rows, cols, hash_vector(row_offsets), hash_vector(column_indices));
}

std::string CsrMatrix::value_hash() const { return hash_vector(values); }

std::string pattern_hash_of(std::int64_t rows, std::int64_t cols, const std::string& offsets_hash,
                            const std::string& columns_hash) {
  return hash_text(fmt::format("{}x{} {} {}", rows, cols, offsets_hash, columns_hash));
}

Status check_matrix_shape(std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) return invalid_input(fmt::format("the shape {} x {} is negative", rows, cols));
  if (rows > kMaxMatrixDimension || cols > kMaxMatrixDimension) {
    return unsupported(
        fmt::format("the shape {} x {} exceeds the limit of {} rows and columns", rows, cols, kMaxMatrixDimension));
  }
  return {};
}

float rounded(float value, DataType type) {
  if (type == DataType::kFloat16) value = float_from_fp16(fp16_from_float(value));
  if (type == DataType::kBFloat16) value = float_from_bf16(bf16_from_float(value));
  return value + 0.0F;  // -0 + 0 is 0
}

CsrMatrix transposed(const CsrMatrix& matrix) {
  CsrMatrix result{{matrix.cols, matrix.rows}, matrix.data_type};
  result.row_offsets.assign(matrix.cols + 1, 0);
  result.column_indices.resize(matrix.nnz());
  result.values.resize(matrix.nnz());
  for (const std::uint32_t column : matrix.column_indices) ++result.row_offsets[column + 1];
  std::partial_sum(result.row_offsets.begin(), result.row_offsets.end(), result.row_offsets.begin());
  std::vector<std::int64_t> next(result.row_offsets.begin(), result.row_offsets.end() - 1);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i) {
      const std::int64_t position = next[matrix.column_indices[i]]++;
      result.column_indices[position] = static_cast<std::uint32_t>(row);
      result.values[position] = matrix.values[i];
    }
  }
  return result;
}

Status append_rows(CsrMatrix& matrix, const CsrMatrix& below) {
  if (below.cols != matrix.cols) {
    return invalid_argument(
        fmt::format("{} columns do not go under {}: the weights take different inputs", below.cols, matrix.cols));
  }
  if (below.data_type != matrix.data_type) {
    return invalid_argument(
        fmt::format("{} does not go under {}", short_name(below.data_type), short_name(matrix.data_type)));
  }
  SPARSMITH_RETURN_IF_ERROR(check_matrix_shape(matrix.rows + below.rows, matrix.cols));
  const std::int64_t first = matrix.nnz();
  for (std::int64_t row = 1; row <= below.rows; ++row) matrix.row_offsets.push_back(first + below.row_offsets[row]);
  matrix.column_indices.insert(matrix.column_indices.end(), below.column_indices.begin(), below.column_indices.end());
  matrix.values.insert(matrix.values.end(), below.values.begin(), below.values.end());
  matrix.rows += below.rows;
  return {};
}

CsrMatrix converted(const CsrMatrix& matrix, DataType type) {
  CsrMatrix result = matrix;
  result.data_type = type;
  for (float& value : result.values) value = rounded(value, type);
  return result;
}

}  // namespace sparsmith
