// Reader of Matrix Market files (.mtx), https://math.nist.gov/MatrixMarket/formats.html.
#pragma once

#include <string_view>

#include "base/memory_limit.h"
#include "matrix/csr_matrix.h"

namespace sparsmith {

// Coordinate files (real, integer, pattern; general, symmetric, skew-symmetric) and array files (real, integer). The
// banner line is required. Entries at the same position are summed; a duplicate position in a pattern file counts once.
// A symmetric file may only store the triangle on and below the diagonal (skew-symmetric: below it), as the format
// demands. Values become fp32. Values for a pattern file are drawn with `seed`.
//   Errors: kInvalidInput or kUnsupported (complex, hermitian) with the line and the reason;
//   kOutOfMemory, before any allocation, when the matrix takes more than `max_bytes`.
Result<CsrMatrix> parse_matrix_market(std::string_view text, std::uint64_t seed,
                                      std::int64_t max_bytes = kNoMemoryLimit);

}  // namespace sparsmith
