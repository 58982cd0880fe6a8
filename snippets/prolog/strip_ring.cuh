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
  // Bounds of the next 32 strips of this warp, in units: a lane holds those of one.
  u32 lane_begin = 0;
  u32 lane_end = 0;
  int bounds_lane = 0;  // that holds those of `next`

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
    load_bounds();
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
  // One load for 32 strips, so that copies wait for no load of their own.
  SPARSMITH_DEVICE void load_bounds() {
    const int strip = next + thread_index() % bitmap::kLanes * kWarps;
    if (strip < end) {
      lane_begin = load_cached(offsets + strip);
      lane_end = load_cached(offsets + strip + 1);
    }
    bounds_lane = 0;
  }

  SPARSMITH_DEVICE void copy_next(int to_slot) {
    if (next < end) {  // the same for every lane
      const u32 begin = shuffle_index(lane_begin, bounds_lane);
      const int units = static_cast<int>(shuffle_index(lane_end, bounds_lane) - begin);
      const u8* from = strips + static_cast<u64>(begin) * bitmap::kUnitBytes;
      u8* to = slots + to_slot * slot_bytes;
      for (int unit = thread_index() % bitmap::kLanes; unit < units; unit += bitmap::kLanes) {
        async_copy_streaming(to + unit * bitmap::kUnitBytes, from + unit * bitmap::kUnitBytes);
      }
      next += kWarps;
      if (++bounds_lane == bitmap::kLanes) load_bounds();
    }
    async_commit();
  }
};

}  // namespace sparsmith
