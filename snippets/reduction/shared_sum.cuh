// The third link: kParts parts of a thread group, each already combined by shuffle, add up through shared memory.
//
// The first lane of each part writes its sums; after a barrier the first part adds the others' in ascending order: the
// same result in every run.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// kPartThreads: threads of a part, the first kOwners of which hold sums (one for each token lane).
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

}  // namespace sparsmith
