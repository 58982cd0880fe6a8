// The tiles of a two_four weight, through a ring of shared memory that belongs to one warp, by bulk copies.
//
// Each of a block's warps takes every kWarps-th strip; one of its lanes starts a copy for each, which all lanes await
// at the slot's own barrier. So what is on its way takes no registers, and nobody waits for what was asked for later.
// All strips are of one size and lie side by side: nothing need be looked up.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/two_four_tiles.cuh"

namespace sparsmith {

template <class Tiles_, int kWarps>
struct TwoFourRing {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kWarps, 4, 8, 16)

  using Tiles = Tiles_;
  using Operand = Vector<u32, 4>;
  static constexpr int kTiles = Tiles::kTiles;
  static constexpr int kHeld = 1;  // a strip at a time
  static constexpr int kMaxStages = 8;

  Tiles tiles;
  u8* slots;  // of this warp
  BulkBarrier* barriers;
  int stages;                // 1 to kMaxStages
  const u8* next = nullptr;  // strip to copy: where it lies
  int left = 0;              // strips to copy
  int place = 0;             // of the strip to take, in the ring
  u32 phase = 0;             // of the next copy that lands

  //   shared: [kWarps][stages][Tiles::kBytes], aligned to 128 bytes; barriers: [kWarps][kMaxStages], beside it. A
  //   barrier of the warp comes before the first wait.
  SPARSMITH_DEVICE TwoFourRing(const Tiles& tiles_, u8* shared, BulkBarrier* barriers_, int stages_)
      : tiles(tiles_),
        slots(shared + warp_index() * stages_ * Tiles::kBytes),
        barriers(barriers_ + warp_index() * kMaxStages),
        stages(stages_) {
    if (lane_index() == 0) {
      SPARSMITH_ROLLED for (int stage = 0; stage < stages; ++stage) bulk_barrier_init(barriers + stage);
    }
  }

  // Turns to every kWarps-th strip of row tile `row_tile` from `first` to `end`, and asks for the first ones. Nobody
  // reads the slots any more. Every lane calls it, as all of these.
  SPARSMITH_DEVICE void turn_to(int row_tile, int first, int end) {
    next = tiles.at(row_tile, first);
    left = (end - first + kWarps - 1) / kWarps;
    SPARSMITH_ROLLED for (int stage = 0; stage < stages; ++stage) {
      copy(place + stage < stages ? place + stage : place + stage - stages);
    }
  }

  // Until the next strip is there.
  SPARSMITH_DEVICE void wait(int /*slot*/) const { bulk_wait_in_warp(barriers + place, phase); }
  SPARSMITH_DEVICE Operand operand(int /*slot*/, int tile, int step) const {
    const u8* from = slots + place * Tiles::kBytes + tile * two_four::kTileBytes + step * two_four::kFragmentBytes;
    return reinterpret_cast<const Operand*>(from)[lane_index()];
  }
  SPARSMITH_DEVICE u32 metadata(int /*slot*/, int tile) const {
    const u8* from = slots + place * Tiles::kBytes + tile * two_four::kTileBytes + two_four::kValueBytes;
    return reinterpret_cast<const u32*>(from)[lane_index()];
  }
  // The strip has been taken by all lanes: asks for another in its place.
  SPARSMITH_DEVICE void release(int /*slot*/) {
    warp_barrier();
    copy(place);
    if (++place == stages) {
      place = 0;
      phase ^= 1;
    }
  }

  // Behind writes to the ring's place, before the barrier after which it is a ring again.
  SPARSMITH_DEVICE void copies_follow() const { bulk_copies_follow(); }

 private:
  SPARSMITH_DEVICE void copy(int to) {
    if (left > 0 && lane_index() == 0) bulk_copy(slots + to * Tiles::kBytes, next, Tiles::kBytes, barriers + to);
    --left;
    next += kWarps * two_four::kStripBytes;
  }
};

}  // namespace sparsmith
