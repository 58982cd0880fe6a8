// Another second link: kLanes threads of a warp, kStride lanes apart, add their sums by shuffles and share out the
// result. Each thread ends up with its part of the tokens, so that a round sends half as much as the previous round.
//
// If there are more lanes than tokens, kLanes / kTokens neighbours end up with the same token and the same bits.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <int kLanes_, int kStride>
struct ShuffleShare {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4, 8, 16, 32)
  static_assert(kLanes_ * kStride <= 32, "a shuffle stays inside a warp");

  static constexpr int kLanes = kLanes_;

  // The number of tokens that a lane ends up with, at the beginning of its sums, and the first of these tokens.
  template <int kTokens>
  static constexpr int kKept = kTokens > kLanes ? kTokens / kLanes : 1;
  template <int kTokens>
  static SPARSMITH_DEVICE int first_token(int lane) {
    return lane * kTokens / kLanes;
  }

  // lane: the number of this lane among the kLanes. Every lane of the warp calls it.
  template <int kTokens>
  static SPARSMITH_DEVICE void combine(float (&sums)[kTokens], int lane) {
    SPARSMITH_UNROLL for (int round = kLanes / 2, kept = kTokens; round > 0; round /= 2) {
      if (kept == 1) {
        sums[0] += shuffle_xor(sums[0], round * kStride);
        continue;
      }
      kept /= 2;
      const bool upper = (lane & round) != 0;
      SPARSMITH_UNROLL for (int t = 0; t < kTokens / 2; ++t) {
        if (t < kept) {
          const float sent = upper ? sums[t] : sums[t + kept];
          const float own = upper ? sums[t + kept] : sums[t];
          sums[t] = own + shuffle_xor(sent, round * kStride);
        }
      }
    }
  }
};

}  // namespace sparsmith
