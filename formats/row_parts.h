// Row blocks made of parts, 16 neighbouring rows each, dealt such that the blocks hold about as many nonzeros. 16 rows
// of token-major Y are a whole sector of memory: scattered parts are written as fast as neighbouring ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/packed_reader.h"
#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

inline constexpr int kPartRows = 16;

// The first row of each part of each row block, of as many blocks as the rows fill: parts with most nonzeros first,
// each to the block that has least so far and a part to go. Parts behind the last row hold nothing.
std::vector<std::uint32_t> deal_row_parts(std::span<const std::int64_t> row_offsets, int parts_of_block);
inline std::vector<std::uint32_t> deal_row_parts(const CsrMatrix& matrix, int parts_of_block) {
  return deal_row_parts(matrix.row_offsets, parts_of_block);
}

// As array "row_parts" of a packed weight.
PackedArray row_parts_array(const std::vector<std::uint32_t>& first_rows);

// kInvalidInput unless each part stands there once, in whatever order.
Status check_row_parts(const Elements<std::uint32_t>& row_parts);
// kInvalidInput unless they are dealt as above.
Status check_dealt_parts(const Elements<std::uint32_t>& row_parts, std::span<const std::int64_t> row_offsets,
                         int parts_of_block);

// The rows of a row block of the weight, part by part.
std::vector<std::int64_t> rows_of_block(const Elements<std::uint32_t>& row_parts, std::int64_t block,
                                        int parts_of_block);

}  // namespace sparsmith
