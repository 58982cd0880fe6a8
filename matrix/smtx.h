// Reader and writer of .smtx, the text format of the Deep Learning Matrix Collection: a zero pattern without values.
#pragma once

#include <string>
#include <string_view>

#include "base/memory_limit.h"
#include "matrix/csr_matrix.h"

namespace sparsmith {

// Format: the header "M, K, nnz", then M + 1 row offsets, then nnz column indices that start at 0. Numbers are
// separated by commas, blanks or line breaks. Lines that start with % are comments. Columns of a row may come in any
// order. Values are drawn with `seed` (draw_values), as fp32.
//   Errors: kInvalidInput with the line and the reason; kOutOfMemory, before any allocation, when the matrix takes more
//   than `max_bytes`. The memory is bounded by the text's size.
Result<CsrMatrix> parse_smtx(std::string_view text, std::uint64_t seed, std::int64_t max_bytes = kNoMemoryLimit);

// The pattern of `matrix` as text in the collection's dialect.
std::string smtx_text(const CsrMatrix& matrix);

}  // namespace sparsmith
