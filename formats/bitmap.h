// The bitmap format (bitmap_layout.h): one bit per element, and the values that are not 0. Values stand in the order in
// which a warp makes tensor-core operands of them. For weights that are too dense for one index per nonzero.
#pragma once

#include <string>

namespace sparsmith {

// The matrix alone decides the bytes. Values are fp16 or bf16; explicit zeros are stored as zeros.
//   facts: "row_tiles" (of 16 R rows), "strips" (per row tile), "max_strip_bytes"; "first_strips" (per row tile: strips
//          whose place follows from their number) and "first_units" (the room of each, in units of 16 bytes)
struct BitmapPacking {
  int tiles = 4;                // tiles of 16 rows, stacked in a strip: 1, 2 or 4
  int run_bits = 8;             // bits of a word whose values lie together: 4 or 8
  bool stored_offsets = false;  // lanes' starts are stored (one more bit per element), not counted by kernels

  // "bitmap_r4_b8_scanned"
  std::string name() const;
};

}  // namespace sparsmith
