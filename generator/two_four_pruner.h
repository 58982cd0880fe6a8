// Prunes a dense weight 2:4 on the device, along rows and columns, into its packing and that of its transpose.
#pragma once

#include <span>
#include <vector>

#include "formats/packed_weight.h"
#include "generator/value_writer.h"

namespace sparsmith {

// The plan binds to the dense weight as operand kPrunedOperand, [rows][cols] without gaps, and to kPrunedTiles, the
// array of the packing two_four, and kPrunedTransposedTiles, that of two_four_transposed. It is one launch without
// workspace, and writes what pack() makes of prune_two_four(), whatever the arrays held.
//   source: fp32, or `type`. Errors: kInvalidArgument for a type of other than 16 bits, and for rows or cols that are
//   no multiples of 4.
Result<ValueWriter> two_four_pruner(std::int64_t rows, std::int64_t cols, DataType type, DataType source);

// Those of a weight from each possible source. Empty where there are none, or where `packings` lack one of theirs.
std::vector<ValueWriter> two_four_pruners(std::int64_t rows, std::int64_t cols, DataType type,
                                          std::span<const PackedWeight> packings);

}  // namespace sparsmith
