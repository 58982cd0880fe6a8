// The dense weight in global memory, row by row without gaps, of 16-bit values: for kernels that unpack a weight.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

struct DenseRows {
  SPARSMITH_ROLE(epilog)

  u16* values;  // aligned to 16 bytes
  int rows;
  int cols;

  // Stores 8 neighbouring values of a row, those that the weight has. `column`: of the first, a multiple of 8.
  SPARSMITH_DEVICE void store(int row, int column, const Vector<u32, 4>& chunk) const {
    if (row >= rows) return;
    u16* to = values + static_cast<i64>(row) * cols + column;
    if (cols % 8 == 0) {
      if (column < cols) store_whole(reinterpret_cast<Vector<u32, 4>*>(to), chunk);
      return;
    }
    SPARSMITH_UNROLL for (int i = 0; i < 8; ++i) {
      if (column + i < cols) to[i] = static_cast<u16>(chunk[i / 2] >> (16 * (i % 2)));
    }
  }
};

}  // namespace sparsmith
