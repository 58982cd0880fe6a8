// The sums of a warp's tiles, in the accumulators of mma.m16n8k16, and their addition over the warps of a block.
//
// A warp holds kTiles tiles of 16 rows by kTokenTiles tiles of 8 tokens, over its share of K. At the end each warp puts
// its sums into shared memory. Every output is added up over the warps in their order: the same result in every run.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value, int kTiles, int kTokenTiles_, int kWarps>
struct FragmentSums {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kTiles, 1, 2, 4)
  SPARSMITH_TUNE(kTokenTiles_, 1, 2, 4, 8)
  SPARSMITH_TUNE(kWarps, 2, 4, 8, 16)

  static constexpr int kTokenTiles = kTokenTiles_;
  static constexpr int kRows = kTiles * bitmap::kTileRows;
  static constexpr int kTokens = kTokenTiles * 8;
  static constexpr int kStride = kRows + 4;  // floats a token: the lanes of a store meet different banks
  static constexpr int kWarpSums = kTokens * kStride;
  static constexpr int kSharedBytes = kWarps * kWarpSums * static_cast<int>(sizeof(float));

  float values[kTiles][kTokenTiles][4];

  SPARSMITH_DEVICE void clear() {
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
      SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
        SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) values[r][j][i] = 0.0F;
      }
    }
  }

  // Adds the product of a fragment of tile r and the operand of token tile j.
  SPARSMITH_DEVICE void add(int r, int j, const u32 (&a)[4], u32 b0, u32 b1) {
    TensorMultiply<Value>::add(values[r][j], a, b0, b1);
  }

  SPARSMITH_DEVICE void put(float* shared) const {
    const int lane = lane_index();
    float* to = shared + warp_index() * kWarpSums;
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
      SPARSMITH_UNROLL for (int j = 0; j < kTokenTiles; ++j) {
        SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) {
          const int row = r * bitmap::kTileRows + lane / 4 + i / 2 * 8;
          const int token = j * 8 + lane % 4 * 2 + i % 2;
          to[token * kStride + row] = values[r][j][i];
        }
      }
    }
  }

  // The sum of an output over the warps, after put() of all warps and a barrier.
  static SPARSMITH_DEVICE float total(const float* shared, int row, int token) {
    float sum = 0.0F;
    SPARSMITH_UNROLL for (int warp = 0; warp < kWarps; ++warp) {
      sum += shared[warp * kWarpSums + token * kStride + row];
    }
    return sum;
  }
};

}  // namespace sparsmith
