// The tiles of a two_four weight, straight from global memory into the A operands of mma.sp.m16n8k32.
//
// Each of a block's warps takes every kWarps-th strip. What it takes next it has loaded kDepth strips before, into
// registers.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/two_four_tiles.cuh"

namespace sparsmith {

template <class Tiles_, int kDepth_, int kWarps>
struct TwoFourStream {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kDepth_, 1, 2, 3, 4)
  SPARSMITH_TUNE(kWarps, 4, 8, 16)

  using Tiles = Tiles_;
  using Operand = Vector<u32, 4>;
  static constexpr int kTiles = Tiles::kTiles;
  static constexpr int kHeld = kDepth_;  // strips, that are taken in turn

  Tiles tiles;
  const u8* next = nullptr;  // strip to load: where it lies
  int left = 0;              // strips to load
  Operand values[kHeld][kTiles][two_four::kFragments];
  u32 words[kHeld][kTiles];

  // The rest is for streams through shared memory.
  SPARSMITH_DEVICE TwoFourStream(const Tiles& tiles_, u8* /*shared*/, BulkBarrier* /*barriers*/, int /*stages*/)
      : tiles(tiles_) {}

  // Turns to every kWarps-th strip of row tile `row_tile` from `first` to `end`, and asks for the first ones.
  SPARSMITH_DEVICE void turn_to(int row_tile, int first, int end) {
    next = tiles.at(row_tile, first);
    left = (end - first + kWarps - 1) / kWarps;
    SPARSMITH_UNROLL for (int slot = 0; slot < kHeld; ++slot) load(slot);
  }

  // Until the strip of this slot is there. Every lane calls it, as release().
  SPARSMITH_DEVICE void wait(int /*slot*/) const {}
  SPARSMITH_DEVICE Operand operand(int slot, int tile, int step) const { return values[slot][tile][step]; }
  SPARSMITH_DEVICE u32 metadata(int slot, int tile) const { return words[slot][tile]; }
  // The strip of this slot has been taken: asks for another.
  SPARSMITH_DEVICE void release(int slot) { load(slot); }

  // Behind writes to shared memory, before the barrier after which the stream is used again.
  SPARSMITH_DEVICE void copies_follow() const {}

 private:
  SPARSMITH_DEVICE void load(int slot) {
    if (left > 0) {
      SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
        const u8* tile = next + r * two_four::kTileBytes;
        SPARSMITH_UNROLL for (int q = 0; q < two_four::kFragments; ++q) {
          const u8* from = tile + q * two_four::kFragmentBytes;
          values[slot][r][q] = load_streaming(reinterpret_cast<const Operand*>(from) + lane_index());
        }
        words[slot][r] = load_streaming(reinterpret_cast<const u32*>(tile + two_four::kValueBytes) + lane_index());
      }
    }
    --left;
    next += kWarps * two_four::kStripBytes;
  }
};

}  // namespace sparsmith
