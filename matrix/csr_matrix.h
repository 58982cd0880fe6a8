// A pruned weight in compressed sparse row form: the only in-memory representation between the readers and the packers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sparsmith/data_type.h"
#include "sparsmith/status.h"

namespace sparsmith {

// The maximum number of rows or columns of a matrix. Layers are far smaller, so a header with more is damaged.
inline constexpr std::int64_t kMaxMatrixDimension = std::int64_t{1} << 26;

// Ok when both lie in [0, kMaxMatrixDimension].
Status check_matrix_shape(std::int64_t rows, std::int64_t cols);

// The positions of the stored elements of a weight W with M rows (output features) x K columns (input features).
// Columns are in strictly ascending order inside a row. Plain data: any number of threads may read it.
struct SparsityPattern {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> row_offsets{0};     // [rows + 1], nondecreasing, from 0 to nnz
  std::vector<std::uint32_t> column_indices{};  // [nnz], each < cols

  std::int64_t nnz() const { return static_cast<std::int64_t>(column_indices.size()); }
  std::int64_t row_length(std::int64_t row) const { return row_offsets[row + 1] - row_offsets[row]; }
  double sparsity() const;

  // Ok when all conditions above hold; otherwise an error that names the row and the condition.
  Status validate() const;

  std::string pattern_hash() const;
};

// A weight: a pattern and its values. A value may be 0, for example in a weight during training: only readers of files
// prune zeros. No value is -0, Inf or NaN.
struct CsrMatrix : SparsityPattern {
  DataType data_type = DataType::kFloat32;  // the type of the source; every value is representable in it
  std::vector<float> values{};              // [nnz]; fp16 and bf16 are exact in fp32

  // The same, also for the values.
  Status validate() const;

  // The hash of the values only.
  std::string value_hash() const;
};

// The result of pattern_hash(), from the hashes of a pattern's row_offsets and column_indices.
std::string pattern_hash_of(std::int64_t rows, std::int64_t cols, const std::string& offsets_hash,
                            const std::string& columns_hash);

// W^T.
CsrMatrix transposed(const CsrMatrix& matrix);

// Appends the rows of `below` to `matrix`.
//   Errors: kInvalidArgument when columns or types differ; kUnsupported for more than kMaxMatrixDimension rows.
//   `matrix` is then unchanged.
Status append_rows(CsrMatrix& matrix, const CsrMatrix& below);

// `value` rounded to the nearest value of fp16 or bf16; unchanged for every other type. -0 becomes 0.
float rounded(float value, DataType type);

// The matrix with values rounded to `type`, in the same pattern: some values may become 0. A value outside of the range
// of `type` becomes infinite, which validate() reports.
CsrMatrix converted(const CsrMatrix& matrix, DataType type);

}  // namespace sparsmith
