// The sums of slots become sums of rows, through shared memory: a lane leaves the sum of its slot there. After a
// barrier, kLanes lanes add up the slots of a row, in a fixed order.
//
// kBlockThreads is not 0 if a part's first row, its longest, may have far more slots than others. Then the whole block
// adds up that row's slots, and leaves one sum per warp behind the part's slots for the kLanes lanes. (There are so
// many parts that the next long row has its own part.)
#pragma once

#include "formats/slots_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/reduction/register_sums.cuh"
#include "snippets/reduction/shuffle_sum.cuh"

namespace sparsmith {

template <int kLanes_, int kTokens_, int kBlockThreads>
struct SlotSums {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 4, 8, 16, 32)
  SPARSMITH_TUNE(kTokens_, 1, 2, 4, 8)
  SPARSMITH_TUNE(kBlockThreads, 0, 128, 256, 512, 1024)

  static constexpr int kLanes = kLanes_;
  static constexpr int kTokens = kTokens_;
  static constexpr int kWarps = kBlockThreads / slots::kLanes;
  static_assert(32 / kLanes <= slots::kRowAlignment, "the rows that a warp adds up all exist, or none does");

  float* shared;  // [kTokens][places]
  int slots;      // of the largest part

  SPARSMITH_DEVICE void put(int slot, const float (&sums)[kTokens]) const {
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) shared[t * places() + slot] = sums[t];
  }

  // Every thread of the block calls it before the barrier behind put(). `row`: the row that the thread adds up first.
  SPARSMITH_DEVICE void announce(const slots::Row& row) const {
    if constexpr (kBlockThreads > 0) {
      if (thread_index() == 0) shared[slots + kWarps] = float_from_bits(row.range);
    }
  }

  // Every thread of the block calls it behind that barrier. Adds up the part's first row if it is long.
  SPARSMITH_DEVICE void add_long_row() const {
    if constexpr (kBlockThreads > 0) {
      const slots::Row row = {0, bits_of_float(shared[slots + kWarps])};
      if (!is_long(row)) return;
      RegisterSums<1, kTokens> sums;
      sums.clear();
      add(thread_index(), count(row), kBlockThreads, sums);
      ShuffleSum<32, 1>::combine(sums);
      if (thread_index() % 32 == 0) put(slots + thread_index() / 32, sums.values[0]);
      block_barrier();
    }
  }

  // Every lane of the warp calls it, kLanes neighbours with one row. All of them get its sums.
  SPARSMITH_DEVICE RegisterSums<1, kTokens> row_sums(const slots::Row& row) const {
    RegisterSums<1, kTokens> sums;
    sums.clear();
    int begin = first(row);
    int end = begin + count(row);
    if (kBlockThreads > 0 && is_long(row)) {
      begin = slots;
      end = slots + kWarps;
    }
    add(begin + thread_index() % kLanes, end, kLanes, sums);
    ShuffleSum<kLanes, 1>::combine(sums);
    return sums;
  }
  // The same with the sums that add(slot, sums) adds, instead of the stored ones. Rare, so it uses few registers.
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
  // The places of a token. The last is for the range of the part's first row.
  SPARSMITH_DEVICE int places() const { return kBlockThreads == 0 ? slots : slots + kWarps + 1; }

  // Only a part's first row begins at slot 0, if it has any slots.
  static SPARSMITH_DEVICE bool is_long(const slots::Row& row) {
    return first(row) == 0 && count(row) > slots::kLongRow * kLanes;
  }

  SPARSMITH_DEVICE void add(int slot, int end, int step, RegisterSums<1, kTokens>& sums) const {
    for (; slot < end; slot += step) {
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) sums.values[0][t] += shared[t * places() + slot];
    }
  }

  static SPARSMITH_DEVICE int first(const slots::Row& row) { return static_cast<int>(row.range & 0xFFFFU); }
  static SPARSMITH_DEVICE int count(const slots::Row& row) { return static_cast<int>(row.range >> 16); }
};

}  // namespace sparsmith
