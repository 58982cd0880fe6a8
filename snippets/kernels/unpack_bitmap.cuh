// Makes a bitmap weight dense again, in global memory, for a library that multiplies by it.
//
// A warp brings a strip to shared memory (prolog/strip_ring.cuh), decodes it as for tensor cores
// (prolog/bitmap_values.cuh), and ends: one strip each balances the work better than several. A lane has 16
// neighbouring values of two rows of a tile; it exchanges half of them with its neighbour, so that a store fills
// sectors of 32 bytes.
//
// The grid's x runs over row tiles, its y over kWarps strips; each strides if it is smaller.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/epilog/dense_rows.cuh"

namespace sparsmith {

template <class Ring, class Values, int kWarps>
struct UnpackBitmapKernel {
  SPARSMITH_ROLE(kernel)

  static constexpr int kTiles = Values::kTiles;

  // row_parts: [row_tiles][kTiles], the first row of each part.
  static SPARSMITH_DEVICE void run(Ring& ring, const u32* row_parts, const DenseRows& weight, int row_tiles,
                                   int row_strips) {
    launch_dependents();
    for (int strip = block_index_y() * kWarps + warp_index(); strip < row_strips; strip += grid_size_y() * kWarps) {
      for (int row_tile = block_index_x(); row_tile < row_tiles; row_tile += grid_size_x()) {
        ring.bounds.turn_to(row_tile, strip, strip + 1);
        ring.start();
        int rows[kTiles];
        SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
          rows[r] = static_cast<int>(load_cached(row_parts + row_tile * kTiles + r));
        }
        wait_for_previous();  // the strip is under way
        Values values;
        values.begin(ring.wait());
        SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
          store(values, r, weight, rows[r], strip * bitmap::kStripColumns);
        }
        ring.release();
      }
    }
    wait_for_previous();  // where there was nothing to do, too
  }

 private:
  static SPARSMITH_DEVICE void store(const Values& values, int r, const DenseRows& weight, int first_row, int column) {
    u32 rows[2][8];  // of this lane: rows g and g + 8, columns 16 t to 16 t + 15
    take<0>(values, r, rows);
    take<1>(values, r, rows);
    take<2>(values, r, rows);
    take<3>(values, r, rows);
    const int lane = lane_index();
    const bool odd = lane % 2 != 0;
    const int chunk = column + lane % 4 / 2 * 32 + lane % 2 * 8;
    SPARSMITH_UNROLL for (int i = 0; i < 2; ++i) {
      // The first store: the even lane's columns. The second one: the odd lane's.
      Vector<u32, 4> even_lane;
      Vector<u32, 4> odd_lane;
      SPARSMITH_UNROLL for (int w = 0; w < 4; ++w) {
        const u32 got = shuffle_xor_word(odd ? rows[i][w] : rows[i][4 + w], 1);
        even_lane[w] = odd ? got : rows[i][w];
        odd_lane[w] = odd ? rows[i][4 + w] : got;
      }
      const int row = first_row + lane / 4 + 8 * i;
      weight.store(row, chunk, even_lane);
      weight.store(row, chunk + 16, odd_lane);
    }
  }

  template <int kFragment>
  static SPARSMITH_DEVICE void take(const Values& values, int r, u32 (&rows)[2][8]) {
    u32 v[8];
    values.template take<kFragment>(r, v);
    SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) {
      rows[i % 2][2 * kFragment + i / 2] = permute_bytes(v[2 * i], v[2 * i + 1], 0x5410);
    }
  }
};

}  // namespace sparsmith
