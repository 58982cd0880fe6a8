// Products of a step, each lane for itself: an entry's weight times the 16 bytes of its row in each panel.
//
// kLanes lanes work on one segment, so a task has 32 / kLanes segments. When the task ends, these lanes add up by
// shuffles, and the first 32 / kLanes lanes store a sum each.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_input.cuh"
#include "snippets/prolog/panel_stream.cuh"
#include "snippets/reduction/panel_sums.cuh"
#include "snippets/reduction/register_sums.cuh"
#include "snippets/reduction/row_products.cuh"
#include "snippets/reduction/shuffle_sum.cuh"

namespace sparsmith {

namespace panel {

// The entries of a lane's step: the place of each in the panel, and its weight.
template <class Value, int kValueBytes = sizeof(Value)>
struct Entry;

template <class Value>
struct Entry<Value, 2> {
  using Step = panel::Step;
  static constexpr int kCount = 4;

  static SPARSMITH_DEVICE SharedAddress row(const Step& step, int e, SharedAddress rows) {
    return advance_by_low_half<panel::kRowBytes>(rows, e == 0 ? step[0] & ~panel::kTaskEnd : step[e]);
  }
  static SPARSMITH_DEVICE u32 bits(const Step& step, int e) { return step[e] >> 16; }
  static SPARSMITH_DEVICE float weight_of(u32 bits) { return to_float(Value{static_cast<u16>(bits)}); }
  static SPARSMITH_DEVICE float weight(const Step& step, int e) { return weight_of(bits(step, e)); }
  // The weight in both halves of a word.
  static SPARSMITH_DEVICE u32 weight_pair(const Step& step, int e) { return permute_bytes(step[e], 0, 0x3232U); }
};

template <class Value>
struct Entry<Value, 4> {
  using Step = panel::ApartStep;
  static constexpr int kCount = 4;

  static SPARSMITH_DEVICE SharedAddress row(const Step& step, int e, SharedAddress rows) {
    if (e % 2 == 1) return advance_by_high_half<panel::kRowBytes>(rows, step.rows[e / 2]);
    return advance_by_low_half<panel::kRowBytes>(rows, e == 0 ? step.rows[0] & ~panel::kTaskEnd : step.rows[e / 2]);
  }
  static SPARSMITH_DEVICE u32 bits(const Step& step, int e) { return step.values[e]; }
  static SPARSMITH_DEVICE float weight(const Step& step, int e) { return float_from_bits(step.values[e]); }
};

// The number of entries of a lane's step, of `count`, whose rows in all panels are in flight at once: as many as
// registers have room for.
constexpr int entries_together(int count, int panels) {
  const int most = panels < 4 ? 4 / panels : 1;
  return count < most ? count : most;
}

}  // namespace panel

// kPanels: panels that the block keeps, at distances of `stride` bytes. Arithmetic: row_products.cuh.
template <class Value, int kLanes_, int kPanels_, class Arithmetic_>
struct PlainProducts {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4)
  SPARSMITH_TUNE(kPanels_, 1, 2, 4)

  static constexpr int kLanes = kLanes_;
  static constexpr int kPanels = kPanels_;
  static constexpr int kSegments = panel::kWarpLanes / kLanes;
  static constexpr bool kNeedsFinite = false;  // right whatever X holds
  using Row = panel::Row<Value>;
  using Entry = panel::Entry<Value>;
  using Arithmetic = Arithmetic_;
  using Slots = Vector<u16, 1>;  // of the segments whose sums a thread stores

  RegisterSums<kPanels, Row::kTokens> sums;

  SPARSMITH_DEVICE void begin() { sums.clear(); }

  static SPARSMITH_DEVICE Slots slots(const u16* task_slots, u32 task) {
    const int segment = thread_index() % kSegments;
    return load_cached(reinterpret_cast<const Slots*>(task_slots + static_cast<i64>(task) * kSegments + segment));
  }

  SPARSMITH_DEVICE void multiply(const typename Entry::Step& step, SharedAddress rows, u32 stride) {
    constexpr int kTogether = panel::entries_together(Entry::kCount, kPanels);
    Arithmetic arithmetic[kPanels];
    SPARSMITH_UNROLL for (int first = 0; first < Entry::kCount; first += kTogether) {
      panel::RowWords tokens[kTogether][kPanels];  // all on their way before the first is used
      SPARSMITH_UNROLL for (int e = 0; e < kTogether; ++e) {
        const SharedAddress row = Entry::row(step, first + e, rows);
        SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
          tokens[e][p] = load_shared<panel::RowWords>(advanced(row, p * stride));
        }
      }
      SPARSMITH_UNROLL for (int e = 0; e < kTogether; ++e) {
        SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
          arithmetic[p].template add<Entry>(step, first + e, tokens[e][p], sums, p);
        }
      }
    }
  }

  // Ends a task: its sums go to their slots [kTokens], and the next one begins at 0. Every lane of the warp calls it.
  template <class Sums>
  SPARSMITH_DEVICE void put(const Slots& slots, const Sums& to) {
    ShuffleSum<kLanes, kSegments>::combine(sums);
    if (thread_index() % panel::kWarpLanes >= kSegments || slots[0] == panel::kNoSlot) {
      // Nothing, or another lane does it.
    } else if (Sums::is_row(slots[0])) {
      SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) to.store_row(slots[0], p * Row::kTokens, sums.values[p]);
    } else {
      SPARSMITH_UNROLL for (int p = 0; p < kPanels; ++p) {
        const auto& values = sums.values[p];
        SPARSMITH_UNROLL for (int t = 0; t < Row::kTokens; t += 4) {
          to.put(slots[0], p * Row::kTokens + t, {{values[t], values[t + 1], values[t + 2], values[t + 3]}});
        }
      }
    }
    sums.clear();
  }
};

}  // namespace sparsmith
