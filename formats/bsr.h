// The bsr format (bsr_layout.h): blocks that hold a nonzero are stored whole. For weights that were pruned in blocks,
// and for weights so small that indices cost more time than zeros.
#pragma once

#include <string>

namespace sparsmith {

// The matrix alone decides the bytes. Values are fp16 or bf16; explicit zeros are stored as zeros. A weight has fewer
// than 2^31 blocks.
//   facts: "block_rows", "block_columns" (per row of blocks), "blocks" (stored).
struct BsrPacking {
  int tiles = 1;     // tiles of 16 rows, stacked in a block of 32 columns: 1, 2 or 4
  bool all = false;  // store every block
  int line = 0;      // 32 or 64: blocks of 64 rows are lines of so many columns; tiles = 4, listed

  int rows() const { return 16 * tiles; }  // of a block
  int columns() const { return line > 0 ? line : 32; }
  bool halves() const { return line == 32; }  // whether rows of blocks are two times 32 rows from anywhere
  // "bsr_r1_all", "bsr_r2_listed", "bsr_lines64"
  std::string name() const;
};

}  // namespace sparsmith
