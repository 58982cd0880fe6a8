// The third and the last link of a row's sums.
//
// The last link is for rows that were cut into several segments. It keeps a segment's sum until the row is complete.
// Partial sums lie in fp32 as [slot][N]; a second launch adds up a row's slots and runs the epilog.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kParts parts of a thread group, each already combined by shuffle, add up through shared memory.
//
// The first lane of each part writes its sums. After a barrier the first part adds the sums of the others in ascending
// order: the same result in every run. kPartThreads: threads of a part; the first kOwners of them hold sums (one for
// each token lane).
template <int kParts_, int kPartThreads, int kOwners, int kThreads>
struct SharedSum {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kParts_, 1, 2, 4, 8, 16, 32)
  static_assert(kParts_ * kPartThreads <= kThreads, "the parts of a row lie in one block");

  static constexpr int kParts = kParts_;

  template <class Sums>
  static SPARSMITH_DEVICE constexpr int shared_bytes() {
    return kParts == 1
               ? 0
               : kThreads / kPartThreads * kOwners * Sums::kRows * Sums::kTokens * static_cast<int>(sizeof(float));
  }

  // Every thread of the block calls it. Afterwards the first kOwners threads of each group hold the totals.
  template <class Sums>
  static SPARSMITH_DEVICE void combine(Sums& sums, float* shared) {
    if constexpr (kParts > 1) {
      constexpr int kSums = Sums::kRows * Sums::kTokens;
      const int part = thread_index() / kPartThreads;
      const int lane = thread_index() % kPartThreads;
      block_barrier();  // the last round's sums have been read
      if (lane < kOwners) {
        SPARSMITH_UNROLL for (int i = 0; i < kSums; ++i) {
          shared[(part * kSums + i) * kOwners + lane] = sums.values[i / Sums::kTokens][i % Sums::kTokens];
        }
      }
      block_barrier();
      if (part % kParts == 0 && lane < kOwners) {
        for (int other = 1; other < kParts; ++other) {
          SPARSMITH_UNROLL for (int i = 0; i < kSums; ++i) {
            sums.values[i / Sums::kTokens][i % Sums::kTokens] += shared[((part + other) * kSums + i) * kOwners + lane];
          }
        }
      }
    }
  }
};

// No row was cut.
struct NoPartials {
  SPARSMITH_ROLE(reduction)
  static constexpr bool kEnabled = false;
  template <int kTokens>
  static SPARSMITH_DEVICE void put(float*, u32, int, int, const float (&)[kTokens]) {}
};

// One slot per row, to which its segments add atomically, in any order: fewest bytes, but not reproducible bit by bit.
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

// One slot per segment: the second launch adds the slots in order, so two runs give equal bits.
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
