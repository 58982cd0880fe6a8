// Which rows of a weight stand beside each other in a packing: those that have many columns in common, so that what is
// brought for one serves both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/packed_reader.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

// The columns of some rows of blocks, ascending in each.
using BlockColumns = std::vector<std::vector<std::uint32_t>>;

// The columns of blocks of so many columns in which one of these rows holds an element; rows behind the last one hold
// nothing.
std::vector<std::uint32_t> block_columns_of(const SparsityPattern& pattern, std::span<const std::int64_t> rows,
                                            std::int64_t width);

// The rows in pairs that have many columns in common: those that have the most come first, in a pair and of all pairs.
// An odd row comes last. Partners are sought among rows of about the same length, so that the work is linear in the
// rows.
std::vector<std::uint32_t> order_in_pairs(const BlockColumns& columns, std::int64_t column_count);

// The halves of a weight, bsr::kHalfRows neighbouring rows each, in such an order: two beside each other have many
// columns of `width` in common. Their number is even: the last one may be behind the last row.
std::vector<std::uint32_t> halves_in_pairs(const SparsityPattern& pattern, std::int64_t width);

// Rows [first, first + count) of a packing as rows of the weight. `halves`: which half stands at each place; empty: the
// weight's own order. Rows may lie behind the last one.
std::vector<std::int64_t> weight_rows(std::span<const std::uint32_t> halves, std::int64_t first, std::int64_t count);

// The numbers, if each number below their count is there once. Error: kInvalidInput, with the array's name.
Result<std::vector<std::uint32_t>> read_order(const Elements<std::uint32_t>& numbers, const char* name);

}  // namespace sparsmith
