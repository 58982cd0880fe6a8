// What the tiles of a scatter weight have at known places, through a ring of shared memory that belongs to one warp, by
// bulk copies: entries on their way take no registers, and several tiles may be.
//
// One lane starts a copy; the warp waits at the slot's own barrier, takes the words into registers and gives the slot
// back at once. Slots are lines of 128 bytes: bulk copies to other places are slow.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/scatter_entries.cuh"

namespace sparsmith {

// kStages: slots of a warp; 0: there is no ring. kLines: of a tile.
template <int kWarps, int kStages_, int kLines>
struct EntryRing {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kStages_, 0, 2, 3, 4)

  static constexpr int kStages = kStages_;
  static constexpr int kSlotBytes = kLines * scatter::kLineBytes;
  static constexpr int kBarrierBytes = (kWarps * kStages * 8 + 127) / 128 * 128;
  static constexpr int kBytes = kStages * kWarps * kSlotBytes + kBarrierBytes;  // of the block
  static_assert(kStages == 0 || kLines > 0, "every tile has something to copy");

  u8* slots;  // of this warp
  BulkBarrier* barriers;
  int slot = 0;
  u32 phase = 0;  // of the next copy that lands

  // shared: kBytes of the block's, aligned to 128.
  SPARSMITH_DEVICE EntryRing(u8* shared, int warp)
      : slots(shared + kBarrierBytes + warp * (kStages * kSlotBytes)),
        barriers(reinterpret_cast<BulkBarrier*>(shared) + warp * kStages) {
    if (kStages > 0 && scatter::first_lane()) {
      SPARSMITH_UNROLL for (int i = 0; i < kStages; ++i) bulk_barrier_init(barriers + i);
    }
    if (kStages > 0) warp_barrier();
  }

  // Starts the copy that is waited for after `before` others, to a slot that nobody reads any more. REQUIRES: before <
  // kStages.
  SPARSMITH_DEVICE void copy(int before, const u32* lines) const {
    const int to = slot + before < kStages ? slot + before : slot + before - kStages;
    if (scatter::first_lane()) bulk_copy(slots + to * kSlotBytes, lines, kSlotBytes, barriers + to);
  }

  // The next tile's lines. Every lane calls it.
  SPARSMITH_DEVICE const u8* wait() const {
    bulk_wait_in_warp(barriers + slot, phase);
    return slots + slot * kSlotBytes;
  }

  // Once every lane has read them: the next ones stand in the slot behind.
  SPARSMITH_DEVICE void advance() {
    if (++slot == kStages) {
      slot = 0;
      phase ^= 1;
    }
  }
};

}  // namespace sparsmith
