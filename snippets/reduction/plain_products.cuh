// Products of a step, each lane for itself: an entry's weight times the 16 bytes of its panel row, added in fp32.
//
// kLanes lanes work on one segment, so a task has 32 / kLanes segments; when it ends they add up by shuffles, and the
// first 32 / kLanes lanes store a sum each.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_input.cuh"
#include "snippets/prolog/panel_stream.cuh"
#include "snippets/reduction/register_sums.cuh"
#include "snippets/reduction/shuffle_sum.cuh"

namespace sparsmith {

template <class Value, int kLanes_>
struct PlainProducts {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4)

  static constexpr int kLanes = kLanes_;
  static constexpr int kSegments = panel::kWarpLanes / kLanes;
  static constexpr bool kNeedsFinite = false;  // right whatever X holds
  using Row = panel::Row<Value>;
  using Entry = panel::Entry<Value>;
  using Slots = Vector<u16, 1>;  // of the segments whose sums a thread stores

  RegisterSums<1, Row::kTokens> sums;

  SPARSMITH_DEVICE void begin() { sums.clear(); }

  static SPARSMITH_DEVICE Slots slots(const u16* task_slots, u32 task) {
    const int segment = thread_index() % kSegments;
    return load_cached(reinterpret_cast<const Slots*>(task_slots + static_cast<i64>(task) * kSegments + segment));
  }

  SPARSMITH_DEVICE void multiply(const panel::Step& step, const u8* panel) {
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      const auto tokens =
          *reinterpret_cast<const typename Row::Tokens*>(panel + Entry::row(step, e) * panel::kRowBytes);
      float x[Row::kTokens];
      SPARSMITH_UNROLL for (int t = 0; t < Row::kTokens; ++t) x[t] = to_float(tokens[t]);
      sums.add(0, Entry::weight(Entry::bits(step, e)), x);
    }
  }

  // Ends a task: its sums go to their slots [kTokens], and the next one begins at 0. Every lane of the warp calls it.
  SPARSMITH_DEVICE void put(const Slots& slots, float* to, float* /*infinite*/) {
    ShuffleSum<kLanes, kSegments>::combine(sums);
    if (thread_index() % panel::kWarpLanes < kSegments && slots[0] != panel::kNoSlot) {
      SPARSMITH_UNROLL for (int t = 0; t < Row::kTokens; t += 4) {
        const Vector<float, 4> quad = {
            {sums.values[0][t], sums.values[0][t + 1], sums.values[0][t + 2], sums.values[0][t + 3]}};
        *reinterpret_cast<Vector<float, 4>*>(to + slots[0] * Row::kTokens + t) = quad;
      }
    }
    sums.clear();
  }
};

}  // namespace sparsmith
