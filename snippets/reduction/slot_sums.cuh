// The sums of slots become sums of rows, through shared memory: a lane leaves the sum of its slot there, and after a
// barrier kLanes lanes add up the slots of a row, in an order that never changes.
#pragma once

#include "formats/slots_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/reduction/register_sums.cuh"
#include "snippets/reduction/shuffle_sum.cuh"

namespace sparsmith {

template <int kLanes_>
struct SlotSums {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 4, 8, 16, 32)

  static constexpr int kLanes = kLanes_;
  static_assert(32 / kLanes <= slots::kRowAlignment, "the rows that a warp adds up all exist, or none does");

  float* shared;  // [slots of a part]

  SPARSMITH_DEVICE void put(int slot, float sum) const { shared[slot] = sum; }

  // Every lane of the warp calls it, kLanes neighbours with one row; all of them get its sum.
  SPARSMITH_DEVICE RegisterSums<1, 1> row_sum(const slots::Row& row) const {
    return row_sum(row, [this](int slot) { return shared[slot]; });
  }
  // The same with what slot_sum(slot) says instead of what was put.
  template <class SlotSum>
  SPARSMITH_DEVICE RegisterSums<1, 1> row_sum(const slots::Row& row, const SlotSum& slot_sum) const {
    RegisterSums<1, 1> sums;
    sums.clear();
    const int first = static_cast<int>(row.range & 0xFFFFU);
    const int count = static_cast<int>(row.range >> 16);
    for (int i = thread_index() % kLanes; i < count; i += kLanes) sums.values[0][0] += slot_sum(first + i);
    ShuffleSum<kLanes, 1>::combine(sums);
    return sums;
  }
};

}  // namespace sparsmith
