// The memory of a CsrMatrix, computed from its header before any allocation.
#pragma once

#include <cstdint>

#include "base/memory_limit.h"

namespace sparsmith {

// Row offsets of 8 bytes; a column index and a value of 4 bytes for each nonzero.
inline Status check_csr_memory(std::int64_t rows, std::int64_t nnz, std::int64_t max_bytes) {
  return check_memory("the matrix", 8.0 * (static_cast<double>(rows) + 1 + static_cast<double>(nnz)), max_bytes);
}

}  // namespace sparsmith
