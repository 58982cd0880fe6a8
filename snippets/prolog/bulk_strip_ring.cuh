// Brings the strips of a weight by bulk copies, through a ring in shared memory that belongs to one warp.
//
// StripRing needs a copy instruction for every 512 bytes; here one lane starts the copy of a whole strip. Its warp
// waits at the slot's own barrier. Slots begin at multiples of 128 bytes: bulk copies to other places are slow.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Bounds: the strips that a warp copies, and their places (prolog/strip_bounds.cuh).
template <class Bounds_>
struct BulkStripRing {
  SPARSMITH_ROLE(prolog)

  using Bounds = Bounds_;
  static constexpr int kMaxStages = 4;

  Bounds bounds;
  int slot_bytes;  // a multiple of 128
  int stages;      // 1 to kMaxStages
  u8* slots;       // of this warp
  BulkBarrier* barriers;
  int slot = 0;
  u32 phase = 0;  // of the next copy that lands

  //   barriers: [warps][kMaxStages] in shared memory, beside the slots. A barrier of the warp must come before the
  //   first wait.
  SPARSMITH_DEVICE BulkStripRing(const Bounds& bounds_, int slot_bytes_, int stages_, u8* shared,
                                 BulkBarrier* barriers_)
      : bounds(bounds_),
        slot_bytes(slot_bytes_),
        stages(stages_),
        slots(shared + warp_index() * stages_ * slot_bytes_),
        barriers(barriers_ + warp_index() * kMaxStages) {
    if (lane_index() == 0) {
      SPARSMITH_ROLLED for (int stage = 0; stage < stages; ++stage) bulk_barrier_init(barriers + stage);
    }
  }

  // Starts the first copies, of the strips to which the bounds have been turned. REQUIRES: no thread reads the slots
  // any more.
  SPARSMITH_DEVICE void start() {
    copy_next<true>(slot);
    SPARSMITH_ROLLED for (int stage = 1; stage < stages; ++stage) {
      copy_next<true>(slot + stage < stages ? slot + stage : slot + stage - stages);
    }
  }

  // The next strip, complete. Every lane calls it.
  SPARSMITH_DEVICE const u8* wait() {
    bulk_wait_in_warp(barriers + slot, phase);
    return slots + slot * slot_bytes;
  }

  // Releases the slot of the strip. REQUIRES: every lane has read it.
  SPARSMITH_DEVICE void release() {
    warp_barrier();
    copy_next<false>(slot);
    if (++slot == stages) {
      slot = 0;
      phase ^= 1;
    }
  }

  // Called behind writes to the place of the slots, before the barrier after which it is a ring again.
  SPARSMITH_DEVICE void copies_follow() const { bulk_copies_follow(); }

 private:
  template <bool kEarly>
  SPARSMITH_DEVICE void copy_next(int to_slot) {
    const u8* from;
    int units;
    const bool copies = kEarly ? bounds.take_early(from, units) : bounds.take(from, units);
    if (copies && lane_index() == 0) {
      bulk_copy(slots + to_slot * slot_bytes, from, units * bitmap::kUnitBytes, barriers + to_slot);
    }
  }
};

}  // namespace sparsmith
