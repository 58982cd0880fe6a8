// The sums of slots become sums of rows, through shared memory: a lane leaves the sum of its slot there, and after a
// barrier kLanes lanes add up the slots of a row, in an order that never changes.
#pragma once

#include "formats/slots_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/reduction/register_sums.cuh"
#include "snippets/reduction/shuffle_sum.cuh"

namespace sparsmith {

template <int kLanes_, int kTokens_>
struct SlotSums {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 4, 8, 16, 32)
  SPARSMITH_TUNE(kTokens_, 1, 2, 4, 8)

  static constexpr int kLanes = kLanes_;
  static constexpr int kTokens = kTokens_;
  static_assert(32 / kLanes <= slots::kRowAlignment, "the rows that a warp adds up all exist, or none does");

  float* shared;  // [kTokens][slots]
  int slots;      // of a part

  SPARSMITH_DEVICE void put(int slot, const float (&sums)[kTokens]) const {
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) shared[t * slots + slot] = sums[t];
  }

  // Every lane of the warp calls it, kLanes neighbours with one row; all of them get its sums.
  SPARSMITH_DEVICE RegisterSums<1, kTokens> row_sums(const slots::Row& row) const {
    RegisterSums<1, kTokens> sums;
    sums.clear();
    const int end = first(row) + count(row);
    for (int slot = first(row) + thread_index() % kLanes; slot < end; slot += kLanes) {
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) sums.values[0][t] += shared[t * slots + slot];
    }
    ShuffleSum<kLanes, 1>::combine(sums);
    return sums;
  }
  // The same with what add(slot, sums) adds instead of what was put: rarely, and in few registers.
  template <class Add>
  SPARSMITH_DEVICE RegisterSums<1, kTokens> row_sums(const slots::Row& row, const Add& add) const {
    RegisterSums<1, kTokens> sums;
    sums.clear();
    const int end = first(row) + count(row);
    SPARSMITH_ROLLED for (int slot = first(row) + thread_index() % kLanes; slot < end; slot += kLanes) {
      add(slot, sums.values[0]);
    }
    ShuffleSum<kLanes, 1>::combine(sums);
    return sums;
  }

 private:
  static SPARSMITH_DEVICE int first(const slots::Row& row) { return static_cast<int>(row.range & 0xFFFFU); }
  static SPARSMITH_DEVICE int count(const slots::Row& row) { return static_cast<int>(row.range >> 16); }
};

}  // namespace sparsmith
