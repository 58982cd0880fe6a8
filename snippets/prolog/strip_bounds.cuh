// Where the strips of a bitmap weight begin and end that one warp copies: every kWarps-th of a row tile.
//
// One load brings the bounds of 32 strips, a strip a lane, so that copies wait for no load of their own.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <int kWarps>
struct StripBounds {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kWarps, 4, 8, 16)

  const u8* strips;
  const u32* offsets;  // of all strips, in units
  int next = 0;        // strip
  int end = 0;
  u32 lane_begin = 0;
  u32 lane_end = 0;
  int lane = 0;  // that holds the bounds of `next`

  SPARSMITH_DEVICE StripBounds(const u8* strips_, const u32* offsets_) : strips(strips_), offsets(offsets_) {}

  // Turns to the strips from `first` to `last`. Every lane calls it, as all of these.
  SPARSMITH_DEVICE void turn_to(int first, int last) {
    next = first;
    end = last;
    load();
  }

  // Whether there is a next strip, and where it lies.
  SPARSMITH_DEVICE bool take(const u8*& from, int& units) {
    if (next >= end) return false;
    const u32 begin = shuffle_index(lane_begin, lane);
    units = static_cast<int>(shuffle_index(lane_end, lane) - begin);
    from = strips + static_cast<u64>(begin) * bitmap::kUnitBytes;
    next += kWarps;
    if (++lane == bitmap::kLanes) load();
    return true;
  }

 private:
  SPARSMITH_DEVICE void load() {
    const int strip = next + lane_index() * kWarps;
    if (strip < end) {
      lane_begin = load_cached(offsets + strip);
      lane_end = load_cached(offsets + strip + 1);
    }
    lane = 0;
  }
};

}  // namespace sparsmith
