// The last link, for rows that were cut into several segments: where a segment's sum waits for its row to be
// complete. Partial sums lie in fp32 as [slot][N]; a second launch adds a row's slots up and runs the epilog.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// No row was cut.
struct NoPartials {
  SPARSMITH_ROLE(reduction)
  static constexpr bool kEnabled = false;
  template <int kTokens>
  static SPARSMITH_DEVICE void put(float*, u32, int, int, const float (&)[kTokens]) {}
};

// One slot a row, to which its segments add atomically, in any order: fewest bytes, not reproducible bit by bit.
struct AtomicPartials {
  SPARSMITH_ROLE(reduction)
  static constexpr bool kEnabled = true;
  template <int kTokens>
  static SPARSMITH_DEVICE void put(float* partials, u32 slot, int first_token, int n, const float (&sums)[kTokens]) {
    float* to = partials + static_cast<i64>(slot) * n + first_token;
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
      if (first_token + t < n) atomic_add(to + t, sums[t]);
    }
  }
};

// One slot a segment: the second launch adds them in order, so two runs give equal bits.
struct StoredPartials {
  SPARSMITH_ROLE(reduction)
  static constexpr bool kEnabled = true;
  template <int kTokens>
  static SPARSMITH_DEVICE void put(float* partials, u32 slot, int first_token, int n, const float (&sums)[kTokens]) {
    float* to = partials + static_cast<i64>(slot) * n + first_token;
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
      if (first_token + t < n) to[t] = sums[t];
    }
  }
};

}  // namespace sparsmith
