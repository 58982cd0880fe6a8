// Where the strips of a bitmap weight begin and end that one warp copies: every kWarps-th of a row tile.
//
// One load brings the bounds of 16 strips, two lanes a strip, so that copies wait for no load of their own.
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
  int first = 0;       // strip, whose bounds lanes 0 and 1 hold
  int left = 0;        // strips that were not taken
  int lane = 0;        // that holds the begin of the next
  u32 bound = 0;       // a lane's

  SPARSMITH_DEVICE StripBounds(const u8* strips_, const u32* offsets_) : strips(strips_), offsets(offsets_) {}

  // Turns to the strips from `begin` to `end`. Every lane calls it, as all of these.
  SPARSMITH_DEVICE void turn_to(int begin, int end) {
    first = begin;
    left = (end - begin + kWarps - 1) / kWarps;
    load();
  }

  // Whether there is a next strip, and where it lies.
  SPARSMITH_DEVICE bool take(const u8*& from, int& units) {
    if (left <= 0) return false;
    const u32 begin = shuffle_index(bound, lane);
    units = static_cast<int>(shuffle_index(bound, lane + 1) - begin);
    from = strips + static_cast<u64>(begin) * bitmap::kUnitBytes;
    --left;
    lane += 2;
    if (lane == bitmap::kLanes) {
      first += bitmap::kLanes / 2 * kWarps;
      load();
    }
    return true;
  }

 private:
  SPARSMITH_DEVICE void load() {
    if (lane_index() / 2 < left) {
      bound = load_cached(offsets + (first + lane_index() / 2 * kWarps + lane_index() % 2));
    }
    lane = 0;
  }
};

}  // namespace sparsmith
