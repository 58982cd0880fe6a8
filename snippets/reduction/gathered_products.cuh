// Products of a step whose rows of X have been gathered: an entry's weight times the lane's tokens of its row.
//
// kLanes teams work on one segment, so a task has 32 / (team lanes * kLanes) segments. When the task ends, these teams
// add up by shuffles, and each stores its part of the tile's sums to the segment's slot.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_stream.cuh"
#include "snippets/reduction/register_sums.cuh"
#include "snippets/reduction/row_products.cuh"
#include "snippets/reduction/shuffle_share.cuh"

namespace sparsmith {

// kAdds: slots with panel::kAddFlag already hold sums, to which the sums of a task are added. Arithmetic:
// row_products.cuh.
template <class Input, int kLanes_, bool kAdds, class Arithmetic>
struct GatheredProducts {
  SPARSMITH_ROLE(reduction)
  SPARSMITH_TUNE(kLanes_, 1, 2, 4, 8, 16, 32)
  static_assert(kLanes_ * Input::kTeamLanes <= panel::kWarpLanes, "the teams of a segment lie in one warp");

  static constexpr int kLanes = kLanes_;
  static constexpr int kTeamLanes = Input::kTeamLanes;
  static constexpr int kSegments = panel::kWarpLanes / kTeamLanes / kLanes;
  static constexpr int kTokens = Input::kTokens;
  static constexpr int kTile = Input::kTile;
  using Entry = typename Input::Entry;
  using Share = ShuffleShare<kLanes, kTeamLanes * kSegments>;

  RegisterSums<1, kTokens> sums;
  Arithmetic arithmetic;

  SPARSMITH_DEVICE void begin() { sums.clear(); }

  // The slot of the segment that this thread works on.
  static SPARSMITH_DEVICE u32 slot(const u16* task_slots, u32 task) {
    const int segment = thread_index() / kTeamLanes % kSegments;
    return load_cached(task_slots + static_cast<i64>(task) * kSegments + segment);
  }

  // The place in shared memory of the sums of `token` and the next tokens, up to a multiple of 4. Quads are rotated by
  // the slot's number, so that threads that read a token of neighbouring slots meet different banks.
  static SPARSMITH_DEVICE u32 place(u32 slot, u32 token) {
    return slot * kTile + (token / 4 + slot) % (kTile / 4) * 4 + token % 4;
  }

  SPARSMITH_DEVICE void multiply(const panel::Step& step, int e, const typename Input::Row& row) {
    arithmetic.template add<Entry>(step, e, row.words, sums, 0);
  }

  // Ends a task: its sums go to their slots, and the next one begins at 0. Every lane of the warp calls it.
  SPARSMITH_DEVICE void put(u32 slot, float* to) {
    const int lane = thread_index() % panel::kWarpLanes / (kTeamLanes * kSegments);
    Share::combine(sums.values[0], lane);
    if constexpr (kAdds) warp_barrier();  // what other lanes have put before is there
    constexpr int kKept = Share::template kKept<kTokens>;
    const bool stores = kLanes <= kTokens || lane % (kLanes / kTokens) == 0;
    if (slot != panel::kNoSlot && stores) {
      const bool adds = kAdds && (slot & panel::kAddFlag) != 0;
      const int token = thread_index() % kTeamLanes * kTokens + Share::template first_token<kTokens>(lane);
      constexpr int kVector = kKept < 4 ? kKept : 4;
      SPARSMITH_UNROLL for (int t = 0; t < kKept; t += kVector) {
        using Part = Vector<float, kVector>;
        auto* held = reinterpret_cast<Part*>(to + place(kAdds ? slot & ~panel::kAddFlag : slot, token + t));
        Part part;
        SPARSMITH_UNROLL for (int i = 0; i < kVector; ++i) part[i] = sums.values[0][t + i];
        if (adds) {
          SPARSMITH_UNROLL for (int i = 0; i < kVector; ++i) part[i] += (*held)[i];
        }
        *held = part;
      }
    }
    sums.clear();
  }
};

}  // namespace sparsmith
