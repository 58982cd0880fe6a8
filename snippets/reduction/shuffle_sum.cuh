// The second link: kLanes threads of a warp, kStride lanes apart, add their sums by shuffles.
//
// The order is a butterfly: every participating lane ends up with the same bits, and every run has the same result.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <int kLanes_, int kStride>
struct ShuffleSum {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4, 8, 16, 32)
  static_assert(kLanes_ * kStride <= 32, "a shuffle stays inside a warp");

  static constexpr int kLanes = kLanes_;

  // Every lane of the warp calls it.
  template <class Sums>
  static SPARSMITH_DEVICE void combine(Sums& sums) {
    SPARSMITH_UNROLL for (int distance = 1; distance < kLanes; distance *= 2) {
      SPARSMITH_UNROLL for (int r = 0; r < Sums::kRows; ++r) {
        SPARSMITH_UNROLL for (int t = 0; t < Sums::kTokens; ++t) {
          sums.values[r][t] += shuffle_xor(sums.values[r][t], distance * kStride);
        }
      }
    }
  }
};

}  // namespace sparsmith
