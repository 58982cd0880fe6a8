// X laid out as B operands of tensor cores, for the kernel that lays it out and the kernels that multiply by it.
// Freestanding: includes nothing.
//
//   operands   [token block][strip][token tile][chunk][32 lanes][16 bytes]
//
// A token block is the tokens that a block of threads processes at once. A token tile is 8 of these tokens. A strip is
// the columns after which the column order repeats. A chunk is what the lanes of a warp load for 32 columns, with one
// load each: lane 4 g + t has elements of token g. The packing of the weight decides their order
// (snippets/prolog/operand_orders.cuh). Tokens and columns beyond X are 0, up to whole token blocks and strips, so that
// kernels need no bounds checks.
#pragma once

namespace sparsmith::operands {

constexpr int kLanes = 32;
constexpr int kTileTokens = 8;
constexpr int kChunkColumns = 32;
constexpr int kChunkBytes = kLanes * 16;

}  // namespace sparsmith::operands
