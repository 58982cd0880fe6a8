// The bsr format, for the packer and the kernels. Freestanding: includes nothing.
//
// Block compressed sparse row: a weight is cut into blocks of 16 R rows and 32 columns, or of 64 rows
// and 32 or 64 columns. Blocks that hold
// a nonzero are stored whole. R is a parameter of the packing. `all` packings store every block, so that kernels look
// nothing up. In `lines` packings of 32 columns a row of blocks has two halves of 32 rows, from anywhere in the weight:
// such that they have many columns in common. Rows and columns beyond the weight hold nothing. An element that the
// weight does not hold is kNothing, -0; a -0 of the weight is stored as 0.
//
//   blocks         fp16 or bf16, ordered by row of blocks, then by column.
//                  [blocks][R][2][32][8]: a block has R tiles of 16 x 32, a tile two fragments, a fragment 8 values
//                  of each lane. Or, in `lines` packings, [blocks][64][columns]: a line of 128 or 64 bytes for each
//                  row, 16-byte chunk h of row r at h ^ (r % 8) or h ^ (r / 2 % 4), as wgmma reads it from shared
//                  memory
//   row_blocks     uint32[block rows + 1]: where the blocks of each row begin. Empty in `all` packings
//   block_columns  uint32[blocks]: the column of a block, in blocks. Empty in `all` packings
//   row_order      uint32[block rows], in `lines` packings: the rows of blocks in the order of kernels, those with the
//                  most blocks first. Rows 2 i and 2 i + 1 of the order have many columns in common
//   half_rows      uint32[block rows][2], in `lines` packings of 32 columns: half h has rows [32 h, 32 h + 32) of the
//                  weight. Each h is there once; the last one may be behind the weight
//
// The lanes of a warp hold a tile as the A operands of two mma.m16n8k16. Value a of lane 4 g + t in fragment q lies in
// register a / 2, half a % 2. It is the element at
//
//   row g + 8 (a / 2 % 2) of the tile, column 8 t + 4 q + 2 (a / 4) + a % 2 of the block
//
// This is the fragment of the PTX ISA with the columns in another order, so that a lane needs 8 neighbouring columns of
// X (snippets/prolog/fragment_input.cuh).
#pragma once

namespace sparsmith::bsr {

constexpr int kTileRows = 16;
constexpr int kBlockColumns = 32;
constexpr int kLanes = 32;
constexpr int kTileElements = kTileRows * kBlockColumns;
constexpr unsigned short kNothing = 0x8000;

// The place of an element in its tile. (For the host. The snippet that looks up single elements has its own function.)
constexpr int element_index(int row, int column) {
  const int lane = 4 * (row % 8) + column / 8;
  const int value = 4 * (column / 2 % 2) + 2 * (row / 8) + column % 2;
  return (column / 4 % 2 * kLanes + lane) * 8 + value;
}

// The same in a block of lines of so many columns.
constexpr int kLineRows = 64;
constexpr int kHalfRows = 32;
constexpr int line_index(int columns, int row, int column) {
  const int chunks = columns / 8;
  return row * columns + ((column / 8) ^ (row * chunks / 8 % chunks)) * 8 + column % 8;
}

}  // namespace sparsmith::bsr
