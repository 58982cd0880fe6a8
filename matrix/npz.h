// Sparse matrices saved by scipy.sparse.save_npz.
#pragma once

#include <cstddef>
#include <span>

#include "base/memory_limit.h"
#include "matrix/csr_matrix.h"

namespace sparsmith {

// Parses CSR, CSC, COO and BSR matrices, compressed or not. Elements at the same position are summed. Explicit zeros
// are dropped. Values of f2 become fp16, all other values fp32.
//   Errors: kInvalidInput with the member and the reason; kUnsupported for DIA matrices and other element types;
//   kOutOfMemory, before the allocation, when the inflated arrays and the matrix take more than `max_bytes`.
Result<CsrMatrix> parse_npz(std::span<const std::byte> file, std::int64_t max_bytes = kNoMemoryLimit);

}  // namespace sparsmith
