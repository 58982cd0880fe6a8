// The sums of a warpgroup that multiplies tiles of W by tiles of X, both in shared memory: rows of W by tokens, in the
// accumulators of wgmma.
//
// W is the first operand, with 64 rows, 16 per warp. X is the second operand, with as many tokens as there are sums. So
// a tile needs four multiplications, however few tokens there are, and half a register per token and row tile. Lane 4 g
// + t of warp w holds the sums of rows 16 w + g and 16 w + g + 8 by tokens 8 j + 2 t and 8 j + 2 t + 1, for all j.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kRowTiles: row tiles of a block, 64 rows each; a warpgroup has the sums of one of them.
template <class Value_, int kTokens_, int kRowTiles>
struct TileSums {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kTokens_, 8, 16, 32, 64, 128, 256)
  SPARSMITH_TUNE(kRowTiles, 1, 2, 4)

  using Value = Value_;
  static constexpr int kTokens = kTokens_;
  static constexpr int kRows = 64 * kRowTiles;
  static constexpr int kCount = kTokens / 2;
  static constexpr int kLine = kRows + 4;  // floats of a token's partial sums, so that a warp's stores meet all banks
  static constexpr int kPartialBytes = kTokens * kLine * 4;

  float values[kCount];

  SPARSMITH_DEVICE void clear() { SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) values[i] = 0.0F; }

  // Starts the products of a tile with the same columns of X, as many as a line has.
  template <int kLineBytes = 128>
  SPARSMITH_DEVICE void multiply(SwizzledRows tile, SwizzledRows x) {
    SPARSMITH_UNROLL for (int s = 0; s < kLineBytes / 32; ++s) {
      SharedMultiply<Value, kTokens>::template add<kLineBytes>(values, advanced(tile, s * 32), advanced(x, s * 32));
    }
  }

  // The same with 64 columns of which W has at most two in four.
  struct SparseOperands {
    u32 values[2][4];  // for each of two multiplications, as for SparseTensorMultiply
    u32 metadata;      // of the first one in lanes 0 and 1 of each quad, of the second one in lanes 2 and 3
  };
  SPARSMITH_DEVICE void multiply(const SparseOperands& tile, SwizzledRows x) {
    using Multiply = SparseWarpgroupMultiply<Value, kTokens>;
    Multiply::template add<0>(values, tile.values[0], tile.metadata, x);
    Multiply::template add<1>(values, tile.values[1], tile.metadata, advanced(x, 64));
  }

  // Adds the products of this warp's operand with 16 columns of tokens [8 i, 8 i + 8), as TensorMultiply has them.
  SPARSMITH_DEVICE void multiply(int i, const u32 (&a)[4], u32 b0, u32 b1) {
    float sums[4];
    SPARSMITH_UNROLL for (int k = 0; k < 4; ++k) sums[k] = values[i * 4 + k];
    TensorMultiply<Value>::add(sums, a, b0, b1);
    SPARSMITH_UNROLL for (int k = 0; k < 4; ++k) values[i * 4 + k] = sums[k];
  }

  // Adds the products of one column of X by what this lane's rows hold there, if they hold something. Rare, so it loads
  // X by elements. `nothing`: the bits that stand for no element.
  template <class Input>
  SPARSMITH_DEVICE void add_column(const Value (&w)[2], u32 nothing, const Input& input, int first_token, int column) {
    SPARSMITH_UNROLL for (int i = 0; i < kTokens / 4; ++i) {
      const float x = input.element(first_token + i / 2 * 8 + thread_index() % 4 * 2 + i % 2, column);
      SPARSMITH_UNROLL for (int r = 0; r < 2; ++r) {
        float& sum = values[i / 2 * 4 + r * 2 + i % 2];
        if (w[r].bits != nothing) sum = multiply_add(to_float(w[r]), x, sum);
      }
    }
  }

  // Whether all sums of the warp are finite.
  SPARSMITH_DEVICE bool finite() const {
    float checks[4] = {};  // side by side
    SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) checks[i % 4] = multiply_add(values[i], 0.0F, checks[i % 4]);
    return !warp_any(!(checks[0] + checks[1] + checks[2] + checks[3] == 0.0F));
  }

  // Stores this warp's rows of the row tile to partials [token][kLine], which begin with the first row of the tile.
  SPARSMITH_DEVICE void put_partials(float* partials, int warp) const {
    float* to = partials + thread_index() % 4 * 2 * kLine + warp * 16 + thread_index() % 32 / 4;
    SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) { to[(i / 4 * 8 + i % 2) * kLine + i / 2 % 2 * 8] = values[i]; }
  }
};

}  // namespace sparsmith
