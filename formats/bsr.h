// The bsr format (bsr_layout.h): blocks of 16 R x 32 elements that hold a nonzero are stored whole. For weights that
// were pruned in blocks, and for weights so small that indices cost more time than zeros.
#pragma once

#include <string>

namespace sparsmith {

// The matrix alone decides the bytes. Values are fp16 or bf16; explicit zeros are stored as zeros. A weight has fewer
// than 2^31 blocks.
//   facts: "block_rows", "block_columns" (per row of blocks), "blocks" (stored).
struct BsrPacking {
  int tiles = 1;     // tiles of 16 rows, stacked in a block: 1, 2 or 4
  bool all = false;  // store every block

  // "bsr_r1_all", "bsr_r2_listed"
  std::string name() const;
};

}  // namespace sparsmith
