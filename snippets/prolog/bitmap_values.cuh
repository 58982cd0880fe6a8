// From a strip of a bitmap weight in shared memory to the A operands of mma.m16n8k16, a fragment at a time.
//
// A lane owns 32 elements of a tile, 8 a fragment. Its word says which of them are stored; their values lie in the
// order of the word's bits behind those of the lanes before, so that one predicated 2-byte load an element takes them
// and the lanes of a load read close to each other. Where a lane's values begin is counted by a scan over the warp, of
// four fragments at once (a byte each), or stored with the weight.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <int kTiles_, bool kStoredOffsets_>
struct BitmapValues {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTiles_, 1, 2, 4)

  static constexpr int kTiles = kTiles_;
  static constexpr bool kStoredOffsets = kStoredOffsets_;
  static constexpr int kHeaderBytes = bitmap::header_bytes(kTiles, kStoredOffsets);

  const u16* values;
  u32 words[kTiles];
  u32 starts[kTiles];             // byte f: values of fragment f that belong to the lanes before
  Vector<u16, 4> firsts[kTiles];  // first value of each fragment

  // Turns to a strip. Every lane of the warp calls it.
  SPARSMITH_DEVICE void begin(const u8* strip) {
    const int lane = thread_index() % bitmap::kLanes;
    values = reinterpret_cast<const u16*>(strip + kHeaderBytes);
    const u32* stored = reinterpret_cast<const u32*>(strip);
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) words[r] = stored[r * bitmap::kLanes + lane];
    if constexpr (kStoredOffsets) {
      const auto* stored_firsts = reinterpret_cast<const Vector<u16, 4>*>(stored + 2 * kTiles * bitmap::kLanes);
      SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
        starts[r] = stored[(kTiles + r) * bitmap::kLanes + lane];
        firsts[r] = stored_firsts[r];
      }
    } else {
      count(lane);
    }
  }

  // Fragment kFragment of tile r, as the four words of the A operand.
  template <int kFragment>
  SPARSMITH_DEVICE void take(int r, u32 (&a)[4]) const {
    SharedCursor cursor = shared_cursor(first<kFragment>(r));
    constexpr u32 kFirst = 1U << (kFragment * bitmap::kFragmentBits);
    const u32 v0 = take_if<kFirst>(cursor, words[r]);
    const u32 v1 = take_if<kFirst << 1>(cursor, words[r]);
    const u32 v2 = take_if<kFirst << 2>(cursor, words[r]);
    const u32 v3 = take_if<kFirst << 3>(cursor, words[r]);
    const u32 v4 = take_if<kFirst << 4>(cursor, words[r]);
    const u32 v5 = take_if<kFirst << 5>(cursor, words[r]);
    const u32 v6 = take_if<kFirst << 6>(cursor, words[r]);
    const u32 v7 = take_if<kFirst << 7>(cursor, words[r]);
    a[0] = permute_bytes(v0, v1, 0x5410);
    a[1] = permute_bytes(v2, v3, 0x5410);
    a[2] = permute_bytes(v4, v5, 0x5410);
    a[3] = permute_bytes(v6, v7, 0x5410);
  }

  // This lane's first value of a fragment of tile r.
  template <int kFragment>
  SPARSMITH_DEVICE const u16* first(int r) const {
    return values + (firsts[r][kFragment] + (starts[r] >> (8 * kFragment) & 0xFFU));
  }

 private:
  // Bits that are set, byte by byte.
  static SPARSMITH_DEVICE u32 byte_counts(u32 word) {
    u32 sums = word - (word >> 1 & 0x55555555U);
    sums = (sums & 0x33333333U) + (sums >> 2 & 0x33333333U);
    return (sums + (sums >> 4)) & 0x0F0F0F0FU;
  }

  // Fills starts and firsts. The sums over all 32 lanes may carry into the next byte, those over the lanes before, at
  // most 31 * 8, do not.
  SPARSMITH_DEVICE void count(int lane) {
    u32 counts[kTiles];
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) starts[r] = counts[r] = byte_counts(words[r]);
    SPARSMITH_UNROLL for (int distance = 1; distance < bitmap::kLanes; distance *= 2) {
      SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
        const u32 before = shuffle_up(starts[r], distance);
        if (lane >= distance) starts[r] += before;
      }
    }
    u32 base = 0;
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
      starts[r] -= counts[r];
      const u32 last = shuffle_index(starts[r], bitmap::kLanes - 1);
      const u32 last_counts = shuffle_index(counts[r], bitmap::kLanes - 1);
      const u32 even = (last & 0x00FF00FFU) + (last_counts & 0x00FF00FFU);  // totals of fragments 0 and 2
      const u32 odd = (last >> 8 & 0x00FF00FFU) + (last_counts >> 8 & 0x00FF00FFU);
      const u32 second = base + (even & 0xFFFFU);
      const u32 third = second + (odd & 0xFFFFU);
      const u32 fourth = third + (even >> 16);
      firsts[r] = {
          {static_cast<u16>(base), static_cast<u16>(second), static_cast<u16>(third), static_cast<u16>(fourth)}};
      base = fourth + (odd >> 16);
    }
  }
};

}  // namespace sparsmith
