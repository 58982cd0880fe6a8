// Row blocks are made of parts, 16 neighbouring rows each. Parts are dealt such that the blocks hold about equally many
// nonzeros. 16 rows of token-major Y are a whole sector of memory: kernels write scattered parts as fast as
// neighbouring ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/packed_reader.h"
#include "sparsmith/status.h"

namespace sparsmith {

inline constexpr int kPartRows = 16;

// The first row of each part of each row block. There are as many blocks as the rows fill. Parts with most nonzeros are
// dealt first, each to the block that has fewest so far and has room for a part. Parts behind the last row hold
// nothing.
std::vector<std::uint32_t> deal_row_parts(std::span<const std::int64_t> row_offsets, int parts_of_block);

// kInvalidInput unless each part stands there once, in any order.
Status check_row_parts(const Elements<std::uint32_t>& row_parts);
// kInvalidInput unless the parts are dealt as deal_row_parts() deals them.
Status check_dealt_parts(const Elements<std::uint32_t>& row_parts, std::span<const std::int64_t> row_offsets,
                         int parts_of_block);

// The rows of a row block of the weight, part by part.
std::vector<std::int64_t> rows_of_block(const Elements<std::uint32_t>& row_parts, std::int64_t block,
                                        int parts_of_block);

}  // namespace sparsmith
