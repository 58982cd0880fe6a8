// The sums of a warpgroup: tokens by rows of W, in the accumulators of wgmma.
//
// X is the operand in registers, with 64 tokens, 16 per warp. W, made dense in shared memory, is the other operand. So
// a multiplication takes up to 256 rows of W, and X is read once for all of them. Lane 4 g + t of warp w holds the sums
// of tokens 16 w + g and 16 w + g + 8 by rows 8 j + 2 t and 8 j + 2 t + 1, for all j.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kRowTiles: tiles of 64 rows.
template <class Value_, int kRowTiles>
struct WarpgroupSums {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kRowTiles, 1, 2, 4)

  using Value = Value_;
  static constexpr int kTokens = 64;
  static constexpr int kWarpTokens = 16;
  static constexpr int kRows = 64 * kRowTiles;
  static constexpr int kCount = kRows / 2;
  static constexpr int kLine = kRows + 8;  // floats of a token's partial sums, so that a warp's stores meet all banks
  static constexpr int kPartialBytes = kTokens * kLine * 4;

  float values[kCount];

  SPARSMITH_DEVICE void clear() { SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) values[i] = 0.0F; }

  // Starts the products of 64 columns: kRowTiles tiles, one behind the other from `tiles` on, times this warp's
  // fragments of X (prolog/staged_fragments.cuh), `first` and the next.
  template <class Fragments>
  SPARSMITH_DEVICE void multiply(const Fragments& fragments, int first, SwizzledRows tiles) {
    SPARSMITH_UNROLL for (int s = 0; s < 4; ++s) {
      const int i = first + s / 2;
      const int word = s % 2 * 2;
      const u32 a[4] = {fragments[0][i][word], fragments[1][i][word], fragments[0][i][word + 1],
                        fragments[1][i][word + 1]};
      WarpgroupMultiply<Value, kRows>::add(values, a, advanced(tiles, s * 32));
    }
  }

  // Adds the products of nonzeros alone, with one column of X. low, high: x of tokens g and g + 8. `element`: the
  // column's place in a row.
  SPARSMITH_DEVICE void multiply_nonzeros(const u8* tiles, int element, float low, float high) {
    const int pair = thread_index() % 4 * 2;
    SPARSMITH_UNROLL for (int j = 0; j < kRows / 8; ++j) {
      SPARSMITH_UNROLL for (int e = 0; e < 2; ++e) {
        const int at = (j * 8 + pair + e) * scatter::kLineBytes + (element / 8 ^ (pair + e)) * 16 + element % 8 * 2;
        const Value w = *reinterpret_cast<const Value*>(tiles + at);
        if ((w.bits & 0x7FFFU) == 0) continue;
        values[j * 4 + e] = multiply_add(to_float(w), low, values[j * 4 + e]);
        values[j * 4 + 2 + e] = multiply_add(to_float(w), high, values[j * 4 + 2 + e]);
      }
    }
  }

  // Whether all sums of the warp are finite.
  SPARSMITH_DEVICE bool finite() const {
    float check = 0.0F;
    SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) check = multiply_add(values[i], 0.0F, check);
    return !warp_any(!(check == 0.0F));
  }

  // Stores this warp's tokens to the warpgroup's partials [token][kLine].
  SPARSMITH_DEVICE void put_partials(float* partials, int warp) const {
    const int group = thread_index() % 32 / 4;
    const int pair = thread_index() % 4 * 2;
    float* to = partials + (warp * kWarpTokens + group) * kLine + pair;
    SPARSMITH_UNROLL for (int j = 0; j < kRows / 8; ++j) {
      SPARSMITH_UNROLL for (int h = 0; h < 2; ++h) {
        const Vector<float, 2> sums = {values[j * 4 + h * 2], values[j * 4 + h * 2 + 1]};
        *reinterpret_cast<Vector<float, 2>*>(to + h * 8 * kLine + j * 8) = sums;
      }
    }
  }
};

}  // namespace sparsmith
