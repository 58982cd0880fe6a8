// A pruned weight in compressed sparse row form: the one in-memory representation between the readers
// and the packers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sparsmith/data_type.h"
#include "sparsmith/status.h"

namespace sparsmith {

// Most rows or columns of a matrix: no layer comes near, and a header that asks for more is damaged.
inline constexpr std::int64_t kMaxMatrixDimension = std::int64_t{1} << 26;

// Ok when both lie in [0, kMaxMatrixDimension].
Status check_matrix_shape(std::int64_t rows, std::int64_t cols);

// Which elements a weight W holds, of M rows (output features) x K columns (input features). Columns ascend strictly
// inside a row. Plain data: any number of threads may read one.
struct SparsityPattern {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> row_offsets{0};   // [rows + 1], nondecreasing, from 0 to nnz
  std::vector<std::uint32_t> column_indices;  // [nnz], each < cols

  std::int64_t nnz() const { return static_cast<std::int64_t>(column_indices.size()); }
  std::int64_t row_length(std::int64_t row) const { return row_offsets[row + 1] - row_offsets[row]; }
  double sparsity() const;

  // Ok when every invariant above holds; otherwise says which row breaks which.
  Status validate() const;

  std::string pattern_hash() const;
};

// A weight: a pattern and its values. A value may be 0, as those of a weight that trains are at times; readers of files
// prune, nothing else does. None is -0, Inf or NaN.
struct CsrMatrix : SparsityPattern {
  DataType data_type = DataType::kFloat32;  // the type of the source; every value is representable in it
  std::vector<float> values;                // [nnz]; fp16 and bf16 are exact in fp32

  // The same of the values as well.
  Status validate() const;

  // Of the values alone.
  std::string value_hash() const;
};

// What pattern_hash() makes of the hashes of a pattern's row_offsets and column_indices.
std::string pattern_hash_of(std::int64_t rows, std::int64_t cols, const std::string& offsets_hash,
                            const std::string& columns_hash);

// W^T.
CsrMatrix transposed(const CsrMatrix& matrix);

// Puts the rows of `below` under those of `matrix`.
//   Errors: kInvalidArgument when they differ in columns or in type; kUnsupported beyond kMaxMatrixDimension rows.
//   `matrix` then stays as it is.
Status append_rows(CsrMatrix& matrix, const CsrMatrix& below);

// `value` rounded to the nearest value of fp16 or bf16, unchanged for every other type; but 0 for -0.
float rounded(float value, DataType type);

// Values rounded to `type`, in the same pattern: some may become 0. What exceeds the range of `type` becomes infinite,
// which validate() reports.
CsrMatrix converted(const CsrMatrix& matrix, DataType type);

}  // namespace sparsmith
