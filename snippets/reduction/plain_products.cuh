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
#include "snippets/reduction/panel_sums.cuh"
#include "snippets/reduction/register_sums.cuh"
#include "snippets/reduction/shuffle_sum.cuh"

namespace sparsmith {

namespace panel {

// One entry of a lane's step: where it stands in the panel, and its weight.
template <class Value>
struct Entry {
  static constexpr int kCount = 16 / (2 * static_cast<int>(sizeof(Value)));  // of a lane's step

  static SPARSMITH_DEVICE SharedAddress row(const panel::Step& step, int e, SharedAddress rows) {
    u32 word = step[sizeof(Value) == 4 ? 2 * e : e];
    if (e == 0) word &= ~panel::kTaskEnd;
    return advance_by_low_half<panel::kRowBytes>(rows, word);
  }
  static SPARSMITH_DEVICE u32 bits(const panel::Step& step, int e) {
    if constexpr (sizeof(Value) == 4) return step[2 * e + 1];
    return step[e] >> 16;
  }
  static SPARSMITH_DEVICE float weight(u32 bits) {
    if constexpr (sizeof(Value) == 4) {
      return float_from_bits(bits);
    } else {
      return to_float(Value{static_cast<u16>(bits)});
    }
  }
};

}  // namespace panel

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

  SPARSMITH_DEVICE void multiply(const panel::Step& step, SharedAddress rows) {
    typename Row::Tokens tokens[Entry::kCount];  // all on their way before the first is used
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      tokens[e] = load_shared<typename Row::Tokens>(Entry::row(step, e, rows));
    }
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      float x[Row::kTokens];
      SPARSMITH_UNROLL for (int t = 0; t < Row::kTokens; ++t) x[t] = to_float(tokens[e][t]);
      sums.add(0, Entry::weight(Entry::bits(step, e)), x);
    }
  }

  // Ends a task: its sums go to their slots [kTokens], and the next one begins at 0. Every lane of the warp calls it.
  template <class Sums>
  SPARSMITH_DEVICE void put(const Slots& slots, const Sums& to) {
    ShuffleSum<kLanes, kSegments>::combine(sums);
    if (thread_index() % panel::kWarpLanes >= kSegments || slots[0] == panel::kNoSlot) {
      // Nothing, or another lane does it.
    } else if (Sums::is_row(slots[0])) {
      to.store_row(slots[0], 0, sums.values[0]);
    } else {
      SPARSMITH_UNROLL for (int t = 0; t < Row::kTokens; t += 4) {
        const Vector<float, 4> quad = {
            {sums.values[0][t], sums.values[0][t + 1], sums.values[0][t + 2], sums.values[0][t + 3]}};
        *reinterpret_cast<Vector<float, 4>*>(to.slots + Row::sum_index(slots[0], t)) = quad;
      }
    }
    sums.clear();
  }
};

}  // namespace sparsmith
