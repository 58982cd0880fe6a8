// The bsr_strips format: weights pruned in blocks below 64 rows, for many tokens (formats/bsr_strips_layout.h).
#pragma once

#include <string>

namespace sparsmith {

// The matrix alone decides the bytes. Values are fp16 or bf16; explicit zeros are stored as zeros. A weight has fewer
// than 2^24 strips and 2^31 steps.
//   facts: "panels", "strips", "steps" (stored).
struct BsrStripsPacking {
  int tiles = 1;  // tiles of 16 rows, stacked in a panel: 1 or 2

  int rows() const { return 16 * tiles; }  // of a panel
  std::string name() const;                // "bsr_strips_r1"
};

}  // namespace sparsmith
