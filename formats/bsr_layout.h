// The bsr format as packer and kernels both see it. Freestanding: includes nothing.
//
// Block compressed sparse row: a weight is cut into blocks of 16 R rows and 32 columns, and blocks that hold a nonzero
// are stored whole; R is a parameter of the packing. In `all` packings every block is stored, so that nothing need be
// looked up. Rows and columns beyond the weight hold nothing.
//
//   blocks         fp16 or bf16 [blocks][R][2][32][8]: by rows of blocks, in each by columns; of a block its R tiles of
//                  16 x 32, of a tile two fragments, of a fragment each lane's values. An element that the weight does
//                  not hold is kNothing, -0; a -0 that it does hold is 0
//   row_blocks     uint32[block rows + 1]: where the blocks of each row begin      empty in `all` packings
//   block_columns  uint32[blocks]: the column of a block, in blocks                empty in `all` packings
//
// The lanes of a warp hold a tile as the A operands of two mma.m16n8k16. Lane 4 g + t's value a of fragment q lies in
// register a / 2, half a % 2, and is the element
//
//   row g + 8 (a / 2 % 2) of the tile, column 8 t + 4 q + 2 (a / 4) + a % 2 of the block
//
// This is the fragment of the PTX ISA with columns in another order, such that a lane meets 8 neighbouring columns of X
// (snippets/prolog/fragment_input.cuh).
#pragma once

namespace sparsmith::bsr {

constexpr int kTileRows = 16;
constexpr int kBlockColumns = 32;
constexpr int kLanes = 32;
constexpr int kTileElements = kTileRows * kBlockColumns;
constexpr unsigned short kNothing = 0x8000;

// (The host's; the snippet that looks for single elements has its own.) Where an element lies in its tile.
constexpr int element_index(int row, int column) {
  const int lane = 4 * (row % 8) + column / 8;
  const int value = 4 * (column / 2 % 2) + 2 * (row / 8) + column % 2;
  return (column / 4 % 2 * kLanes + lane) * 8 + value;
}

}  // namespace sparsmith::bsr
