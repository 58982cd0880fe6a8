// X laid out as B operands of tensor cores, as the kernel that lays it out and those that multiply by it see it.
// Freestanding: includes nothing.
//
//   operands   [token block][strip][token tile][chunk][32 lanes][16 bytes]
//
// A token block is the tokens that a block of threads takes at once, a token tile 8 of them; a strip is the columns
// after which their order repeats, and a chunk what the lanes of a warp take for 32 of them, each by one load: lane
// 4 g + t has elements of token g. In which order, the packing of the weight decides
// (snippets/prolog/operand_orders.cuh). Tokens and columns beyond X are 0, to whole token blocks and strips, so that
// nobody looks where X ends.
#pragma once

namespace sparsmith::operands {

constexpr int kLanes = 32;
constexpr int kTileTokens = 8;
constexpr int kChunkColumns = 32;
constexpr int kChunkBytes = kLanes * 16;

}  // namespace sparsmith::operands
