// Turns a strip of a bitmap weight in shared memory into the A operands of mma.m16n8k16, one fragment at a time.
//
// A lane owns 32 elements of a tile, 8 per fragment. Its word says which of them are stored. Values lie in runs of
// kRunBits bits: in each run, first the values of lane 0, then those of lane 1, and so on, in the order of bits. So the
// lanes of a load read close to each other: at 50 % nonzeros, runs of 8 bits need up to two accesses per load, runs of
// 4 bits one. The start of a lane's values in a run is stored with the weight, or a scan over the warp counts it, for
// four runs at once (one byte each). The start of each run is always stored.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <int kTiles_, int kRunBits_, bool kStoredOffsets_>
struct BitmapValues {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTiles_, 1, 2, 4)
  SPARSMITH_TUNE(kRunBits_, 4, 8)

  static constexpr int kTiles = kTiles_;
  static constexpr int kRunBits = kRunBits_;
  static constexpr bool kStoredOffsets = kStoredOffsets_;
  static constexpr int kRuns = 32 / kRunBits;
  static constexpr int kStartWords = kRuns / 4;  // a tile
  static constexpr int kHeaderBytes = bitmap::header_bytes(kTiles, kRunBits, kStoredOffsets);

  SharedCursor values;
  u32 words[kTiles];
  u32 starts[kTiles][kStartWords];  // byte i of word s: values of run kStartWords i + s that belong to the lanes before
  const u32* firsts;                // [kTiles][kRuns / 2]: bytes before two runs, a half each

  // Turns to a strip. Every lane of the warp calls it.
  SPARSMITH_DEVICE void begin(const u8* strip) {
    const int lane = lane_index();
    values = shared_cursor(strip + kHeaderBytes);
    firsts = reinterpret_cast<const u32*>(strip + kFirstsOffset);
    const u32* stored = reinterpret_cast<const u32*>(strip);
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) words[r] = stored[r * bitmap::kLanes + lane];
    if constexpr (kStoredOffsets) {
      SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
        const auto& of_lane = reinterpret_cast<const Vector<u32, kStartWords>*>(
            stored + kTiles * bitmap::kLanes)[r * bitmap::kLanes + lane];
        SPARSMITH_UNROLL for (int s = 0; s < kStartWords; ++s) starts[r][s] = of_lane[s];
      }
    } else {
      count();
    }
  }

  // Fragment kFragment of tile r, one value per register: the low and high halves of the A operand's four words, in
  // turn.
  template <int kFragment>
  SPARSMITH_DEVICE void take(int r, u32 (&v)[8]) const {
    constexpr int kBit = kFragment * bitmap::kFragmentBits;
    SharedCursor low;
    SharedCursor high;
    if constexpr (kRunBits == 8) {
      const u32 pair =
          2 * permute_bytes(starts[r][0], 0, kFragment < 2 ? 0x4140 : 0x4342) + firsts[r * kRuns / 2 + kFragment / 2];
      low = advanced(values, kFragment % 2 == 0 ? pair & 0xFFFFU : pair >> 16);
    } else {  // the runs of a fragment are neighbours: byte kFragment of both words
      constexpr u32 kSpread = 0xC480U + 0x1111U * kFragment;  // starts are below 128: their highest bits are zeros
      const u32 pair = 2 * permute_bytes(starts[r][0], starts[r][1], kSpread) + firsts[r * kRuns / 2 + kFragment];
      low = advanced(values, pair & 0xFFFFU);
      high = advanced(values, pair >> 16);
    }
    v[0] = take_if<kBit>(low, words[r]);
    v[1] = take_if<kBit + 1>(low, words[r]);
    v[2] = take_if<kBit + 2>(low, words[r]);
    v[3] = take_if<kBit + 3>(low, words[r]);
    SharedCursor& rest = kRunBits == 8 ? low : high;
    v[4] = take_if<kBit + 4>(rest, words[r]);
    v[5] = take_if<kBit + 5>(rest, words[r]);
    v[6] = take_if<kBit + 6>(rest, words[r]);
    v[7] = take_if<kBit + 7>(rest, words[r]);
  }

  // This lane's bits of a run, and its first value there, from the strip alone: for rare cases.
  static SPARSMITH_DEVICE u32 run_bits(const u8* strip, int r, int run) {
    return lane_bits(strip, r, run, lane_index());
  }
  static SPARSMITH_DEVICE const u16* first(const u8* strip, int r, int run) {
    int at = reinterpret_cast<const u16*>(strip + kFirstsOffset)[r * kRuns + run] / 2;
    SPARSMITH_ROLLED for (int lane = 0; lane < lane_index(); ++lane) {
      at += count_bits(lane_bits(strip, r, run, lane));
    }
    return reinterpret_cast<const u16*>(strip + kHeaderBytes) + at;
  }

 private:
  static constexpr int kFirstsOffset = kTiles * bitmap::kLanes * 4 * (kStoredOffsets ? 1 + kStartWords : 1);

  static SPARSMITH_DEVICE u32 lane_bits(const u8* strip, int r, int run, int lane) {
    const u32 word = reinterpret_cast<const u32*>(strip)[r * bitmap::kLanes + lane];
    return word >> (run * kRunBits) & ((1U << kRunBits) - 1);
  }

  // Fills starts. The sums over all 32 lanes may carry into the next byte. The sums over the lanes before are at most
  // 31 * 8 and do not.
  SPARSMITH_DEVICE void count() {
    u32 counts[kTiles][kStartWords];
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
      u32 sums = words[r] - (words[r] >> 1 & 0x55555555U);
      sums = (sums & 0x33333333U) + (sums >> 2 & 0x33333333U);
      if constexpr (kRunBits == 8) {
        counts[r][0] = (sums + (sums >> 4)) & 0x0F0F0F0FU;
      } else {
        counts[r][0] = sums & 0x0F0F0F0FU;
        counts[r][1] = sums >> 4 & 0x0F0F0F0FU;
      }
      SPARSMITH_UNROLL for (int s = 0; s < kStartWords; ++s) starts[r][s] = counts[r][s];
    }
    SPARSMITH_UNROLL for (int distance = 1; distance < bitmap::kLanes; distance *= 2) {
      SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
        SPARSMITH_UNROLL for (int s = 0; s < kStartWords; ++s) {
          starts[r][s] = add_shuffled_up(starts[r][s], distance);
        }
      }
    }
    SPARSMITH_UNROLL for (int r = 0; r < kTiles; ++r) {
      SPARSMITH_UNROLL for (int s = 0; s < kStartWords; ++s) starts[r][s] -= counts[r][s];
    }
  }
};

}  // namespace sparsmith
