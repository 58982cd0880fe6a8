// Brings the strips of a weight through a ring in shared memory that belongs to one warp.
//
// A warp copies the strips of its share of K ahead of their use, asynchronously and past L1. No other warp reads them,
// so the warp waits only for its own lanes. A slot holds the largest strip. The number of slots is known when the
// kernel is launched: as many as fit, at most kMaxStages. Every lane copies 16 bytes at a time; on sm_90 and later,
// BulkStripRing leaves that to the hardware.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

// Bounds: the strips that a warp copies, and their places (prolog/strip_bounds.cuh).
template <class Bounds_>
struct StripRing {
  SPARSMITH_ROLE(prolog)

  using Bounds = Bounds_;
  static constexpr int kMaxStages = 4;

  Bounds bounds;
  int slot_bytes;
  int stages;  // 1 to kMaxStages
  u8* slots;   // of this warp
  int slot = 0;

  // `barriers` is unused here: it is for bulk copies.
  SPARSMITH_DEVICE StripRing(const Bounds& bounds_, int slot_bytes_, int stages_, u8* shared, BulkBarrier* /*barriers*/)
      : bounds(bounds_),
        slot_bytes(slot_bytes_),
        stages(stages_),
        slots(shared + warp_index() * stages_ * slot_bytes_) {}

  // Starts the first copies, of the strips to which the bounds have been turned. REQUIRES: no thread reads the slots
  // any more.
  SPARSMITH_DEVICE void start() {
    slot = 0;
    SPARSMITH_ROLLED for (int stage = 0; stage < stages; ++stage) copy_next<true>(stage);
  }

  // The next strip, complete. Every lane calls it.
  SPARSMITH_DEVICE const u8* wait() {
    switch (stages) {  // each copy is a group of its own, the empty ones after the last included
      case 1: async_wait<0>(); break;
      case 2: async_wait<1>(); break;
      case 3: async_wait<2>(); break;
      default: async_wait<3>(); break;
    }
    warp_barrier();
    return slots + slot * slot_bytes;
  }

  // Releases the slot of the strip. REQUIRES: every lane has read it.
  SPARSMITH_DEVICE void release() {
    warp_barrier();
    copy_next<false>(slot);
    slot = slot + 1 == stages ? 0 : slot + 1;
  }

  // Called behind writes to the place of the slots, before the barrier after which it is a ring again.
  SPARSMITH_DEVICE void copies_follow() const {}

 private:
  template <bool kEarly>
  SPARSMITH_DEVICE void copy_next(int to_slot) {
    const u8* from;
    int units;
    if (kEarly ? bounds.take_early(from, units) : bounds.take(from, units)) {
      u8* to = slots + to_slot * slot_bytes;
      for (int unit = lane_index(); unit < units; unit += bitmap::kLanes) {
        async_copy_streaming(to + unit * bitmap::kUnitBytes, from + unit * bitmap::kUnitBytes);
      }
    }
    async_commit();
  }
};

}  // namespace sparsmith
