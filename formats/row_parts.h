// Row blocks made of parts, 16 neighbouring rows each, dealt such that the blocks hold about as many nonzeros. 16 rows
// of token-major Y are a whole sector of memory: scattered parts are written as fast as neighbouring ones.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

inline constexpr int kPartRows = 16;

// The first row of each part of each row block, of as many blocks as the rows fill: parts with most nonzeros first,
// each to the block that has least so far and a part to go. Parts behind the last row hold nothing.
std::vector<std::uint32_t> deal_row_parts(const CsrMatrix& matrix, int parts_of_block);

// As array "row_parts" of a packed weight.
PackedArray row_parts_array(const std::vector<std::uint32_t>& first_rows);

// kInvalidInput, with the format's name, unless each of `count` parts stands there once, in whatever order; `row_parts`
// may be null.
Status check_row_parts(std::string_view format, const PackedArray* row_parts, std::int64_t count);

}  // namespace sparsmith
