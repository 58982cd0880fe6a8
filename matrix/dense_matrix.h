// Dense matrices with many zeros, from files. They are converted to CsrMatrix, or analyzed without conversion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/memory_limit.h"
#include "matrix/csr_matrix.h"
#include "matrix/sparsity_statistics.h"

namespace sparsmith {

// Row-major, little-endian elements of fp32, fp16 or bf16 at any alignment. Usually part of a mapped file.
struct DenseMatrix {
  const std::byte* data = nullptr;  // rows * cols * size_of(data_type) bytes
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DataType data_type = DataType::kFloat32;

  std::size_t row_bytes() const { return static_cast<std::size_t>(cols) * size_of(data_type); }
  float element(std::int64_t row, std::int64_t column) const;
};

// Sets bit c of `mask` ([ceil(cols / 64)] words) when element c of `row` is not zero. Returns false when the row holds
// an infinity or a NaN.
bool nonzero_mask(const DenseMatrix& matrix, std::int64_t row, std::uint64_t* mask);

// The elements of a row.
void read_row(const DenseMatrix& matrix, std::int64_t row, float* elements);

// An error that names the first element of `row` that is not finite. REQUIRES: `row` has such an element.
Status not_finite_error(const DenseMatrix& matrix, std::int64_t row);

// The nonzeros as a CsrMatrix. Errors: kInvalidInput with the position of an element that is not finite; kOutOfMemory
// for more than `max_bytes`.
Result<CsrMatrix> csr_from_dense(const DenseMatrix& matrix, std::int64_t max_bytes = kNoMemoryLimit);

// Called after the last read of `size` bytes at `offset` of the data. Any of the threads may call it.
using ReleaseBytes = std::function<void(std::size_t offset, std::size_t size)>;

// The result of compute_statistics(csr_from_dense(matrix)), in one pass over the elements on `threads` threads. Needs
// memory only for a few rows and for the row and column counts. Error: as csr_from_dense.
Result<SparsityStatistics> compute_dense_statistics(const DenseMatrix& matrix, int threads,
                                                    const ReleaseBytes& release = {});

}  // namespace sparsmith
