// The strips of a bitmap weight, through a ring of shared memory that belongs to one warp.
//
// A warp copies the strips of its share of K ahead of itself, asynchronously and past L1; no other warp reads them, so
// that it waits for nobody but its own lanes. A slot holds the largest strip. How many slots there are is known when
// the kernel is launched: as many as fit, at most kMaxStages.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <int kWarps>
struct StripRing {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kWarps, 4, 8, 16)

  static constexpr int kMaxStages = 4;

  const u8* strips;
  const u32* offsets;  // of all strips
  int slot_bytes;
  int stages;  // 1 to kMaxStages
  u8* slots;   // of this warp
  int slot = 0;
  int next = 0;  // strip to copy
  int end = 0;
  u32 next_begin = 0;  // its bounds, in units: loaded one copy ahead
  u32 next_end = 0;

  SPARSMITH_DEVICE StripRing(const u8* strips_, const u32* offsets_, int slot_bytes_, int stages_, u8* shared)
      : strips(strips_),
        offsets(offsets_),
        slot_bytes(slot_bytes_),
        stages(stages_),
        slots(shared + thread_index() / bitmap::kLanes * stages_ * slot_bytes_) {}

  // Turns to every kWarps-th strip from `first` to `last`, and starts the first copies. Nobody reads the slots any
  // more.
  SPARSMITH_DEVICE void begin(int first, int last) {
    next = first;
    end = last;
    slot = 0;
    look_ahead();
    for (int stage = 0; stage < stages; ++stage) copy_next(stage);
  }

  // The next strip, complete. Every lane calls it.
  SPARSMITH_DEVICE const u8* wait() const {
    switch (stages) {  // each copy is a group of its own, the empty ones after the last included
      case 1: async_wait<0>(); break;
      case 2: async_wait<1>(); break;
      case 3: async_wait<2>(); break;
      default: async_wait<3>(); break;
    }
    warp_barrier();
    return slots + slot * slot_bytes;
  }

  // Gives the slot of the strip back, once every lane has read it.
  SPARSMITH_DEVICE void release() {
    warp_barrier();
    copy_next(slot);
    slot = slot + 1 == stages ? 0 : slot + 1;
  }

 private:
  SPARSMITH_DEVICE void look_ahead() {
    if (next < end) {
      next_begin = load_cached(offsets + next);
      next_end = load_cached(offsets + next + 1);
    }
  }

  SPARSMITH_DEVICE void copy_next(int to_slot) {
    if (next < end) {
      const u8* from = strips + static_cast<u64>(next_begin) * bitmap::kUnitBytes;
      u8* to = slots + to_slot * slot_bytes;
      const int units = static_cast<int>(next_end - next_begin);
      for (int unit = thread_index() % bitmap::kLanes; unit < units; unit += bitmap::kLanes) {
        async_copy_streaming(to + unit * bitmap::kUnitBytes, from + unit * bitmap::kUnitBytes);
      }
      next += kWarps;
      look_ahead();
    }
    async_commit();
  }
};

}  // namespace sparsmith
