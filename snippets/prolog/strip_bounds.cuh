// The bounds of the strips of a bitmap weight that one warp copies: every kWarps-th strip of a row tile.
//
// The numbers of the first strips of a row tile give their places, so that a warp's first copies wait for nothing. For
// the others, one load brings the bounds of 16 strips, two lanes per strip, while the first strips are in flight.
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
  const u32* offsets;   // of all strips, in units
  int row_strips;       // of a row tile
  int first_strips;     // of these, that lie where their numbers say
  int first_units;      // of such a one
  int early = 0;        // first strip of the row tile that is next
  u32 early_begin = 0;  // of that one
  int first = 0;        // strip, whose bounds lanes 0 and 1 hold
  int left = 0;         // strips that were not taken
  int lane = 0;         // that holds the begin of the next
  u32 bound = 0;        // a lane's

  // Turns to the strips of a row tile from `begin` to `end`. Every lane calls it, as all of these.
  SPARSMITH_DEVICE void turn_to(int row_tile, int begin, int end) {
    first = row_tile * row_strips + begin;
    // Counted in strips of the weight, so that it is computed for each row tile, not once and kept in a register.
    left = (row_tile * row_strips + end - first + kWarps - 1) / kWarps;
    early = begin;
    early_begin = static_cast<u32>((row_tile * first_strips + begin) * first_units);
    const int strip = lane_index() / 2 * kWarps;
    if constexpr (kWarps < bitmap::kFirstStrips) {  // a warp may have more of them than its ring has slots
      bound = early_begin + static_cast<u32>((strip + lane_index() % 2) * first_units);
    }
    load(kWarps == bitmap::kFirstStrips || begin + strip >= first_strips);
  }

  // Returns whether there is a next strip, and its place.
  SPARSMITH_DEVICE bool take(const u8*& from, int& units) {
    if (left <= 0) return false;
    const u32 begin = shuffle_index(bound, lane);
    units = static_cast<int>(shuffle_index(bound, lane + 1) - begin);
    from = strips + static_cast<u64>(begin) * bitmap::kUnitBytes;
    --left;
    lane += 2;
    if (lane == bitmap::kLanes) {
      first += bitmap::kLanes / 2 * kWarps;
      load(true);
    }
    return true;
  }

  // The same, before any strip is waited for: first strips wait for no bounds.
  SPARSMITH_DEVICE bool take_early(const u8*& from, int& units) {
    if (left <= 0 || early >= first_strips) return take(from, units);
    from = strips + static_cast<u64>(early_begin) * bitmap::kUnitBytes;
    units = first_units;
    early += kWarps;
    early_begin += static_cast<u32>(kWarps * first_units);
    --left;
    lane += 2;
    return true;
  }

 private:
  // Loads the bounds that this lane holds from now on, unless it already holds them.
  SPARSMITH_DEVICE void load(bool lacks) {
    if (lacks && lane_index() < 2 * left) {
      bound = load_cached(offsets + (first + lane_index() / 2 * kWarps + lane_index() % 2));
    }
    lane = 0;
  }
};

}  // namespace sparsmith
