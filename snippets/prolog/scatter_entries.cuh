// The list of a tile's nonzeros, held in registers: it makes the tile dense, and afterwards zero again.
//
// A lane's words of a tile are loaded two tiles before they are needed. put() stores each entry's value at its position
// in the warp's own tile, a round after the other; the same registers say in clear() what to set back to 0, so that a
// tile is zeroed as a whole only once. kMinRounds rounds happen in every tile, those up to kMaxRounds are predicated,
// further ones are loaded when they are needed.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

namespace scatter {

// The arrays of a packed weight.
struct Weight {
  const u32* entries;
  const u32* tile_offsets;
  int rows;
  int row_blocks;
  int column_tiles;
};

// The words of a warp's tiles, one tile after another: each lane holds the end of another tile.
struct TileCursor {
  const u32* entries;
  const u32* offsets;  // of the warp's first tile
  int count;           // tiles
  int window;          // the tile whose beginning lane 0 holds
  u32 held;

  SPARSMITH_DEVICE TileCursor(const Weight& weight, int first_tile, int count_)
      : entries(weight.entries), offsets(weight.tile_offsets + first_tile), count(count_) {
    look_at(0);
  }

  // Turns `list` to a tile of the warp. All lanes call it, tiles ascend.
  template <class Entries>
  SPARSMITH_DEVICE void find(int tile, Entries& list) {
    if (tile - window >= kLanes - 1) look_at(tile);
    const u32 begin = shuffle_index(held, tile - window);
    const u32 end = shuffle_index(held, tile - window + 1);
    list.turn_to(begin, static_cast<int>(end - begin));
  }
  template <class Entries>
  SPARSMITH_DEVICE void load(int tile, Entries& list) {
    find(tile, list);
    list.load(entries);
  }

 private:
  SPARSMITH_DEVICE void look_at(int tile) {
    const int mine = tile + thread_index() % kLanes;
    window = tile;
    held = load_cached(offsets + (mine < count ? mine : count));
  }
};

// This lane's words from `begin` on, kLanes apart.
SPARSMITH_DEVICE const u32* lane_words(const u32* entries, u32 begin) {
  return entries + static_cast<i64>(begin) * kLanes + thread_index() % kLanes;
}

SPARSMITH_DEVICE void store_element(u8* tile, u32 offset, u32 value) {
  *reinterpret_cast<u16*>(tile + offset) = static_cast<u16>(value);
}

}  // namespace scatter

// Entries of a word: any lane may hold any position.
template <int kMinRounds_, int kMaxRounds_>
struct WordEntries {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kMinRounds_, 0, 4, 8, 12, 16, 20, 24, 28, 32, 36)
  SPARSMITH_TUNE(kMaxRounds_, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48)
  static_assert(kMinRounds_ <= kMaxRounds_, "what is not predicated is held");

  static constexpr int kMinRounds = kMinRounds_;
  static constexpr int kMaxRounds = kMaxRounds_;

  u32 words[kMaxRounds];
  int rounds = 0;
  u32 begin;

  // To the tile of `count` words a lane from `begin` on.
  SPARSMITH_DEVICE void turn_to(u32 begin_, int count) {
    begin = begin_;
    rounds = count;
  }
  SPARSMITH_DEVICE void load(const u32* entries) {
    const u32* from = scatter::lane_words(entries, begin);
    SPARSMITH_UNROLL for (int r = 0; r < kMaxRounds; ++r) {
      if (r < kMinRounds || r < rounds) words[r] = load_streaming(from + r * scatter::kLanes);
    }
  }

  SPARSMITH_DEVICE void put(const u32* entries, u8* tile) const { store<false, kMaxRounds>(entries, tile); }
  SPARSMITH_DEVICE void clear(const u32* entries, u8* tile) const { store<true, kMaxRounds>(entries, tile); }
  // The same without load(): slowly, in no registers.
  SPARSMITH_DEVICE void put_unloaded(const u32* entries, u8* tile) const { store<false, 0>(entries, tile); }
  SPARSMITH_DEVICE void clear_unloaded(const u32* entries, u8* tile) const { store<true, 0>(entries, tile); }

 private:
  // Of the first kHeld rounds the words are in registers.
  template <bool kZero, int kHeld>
  SPARSMITH_DEVICE void store(const u32* entries, u8* tile) const {
    SPARSMITH_UNROLL for (int r = 0; r < kHeld; ++r) {
      if (r < kMinRounds || r < rounds) scatter::store_element(tile, words[r] >> 16, kZero ? 0 : words[r]);
    }
    SPARSMITH_ROLLED for (int r = kHeld; r < rounds; ++r) {
      const u32 word = load_streaming(scatter::lane_words(entries, begin) + r * scatter::kLanes);
      scatter::store_element(tile, word >> 16, kZero ? 0 : word);
    }
  }
};

// Entries of three bytes: a lane stores to its own bank or the next one, so a byte is enough for a position.
template <int kMinRounds_, int kMaxRounds_>
struct ByteEntries {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kMinRounds_, 0, 4, 8, 12, 16, 20, 24, 28, 32, 36)
  SPARSMITH_TUNE(kMaxRounds_, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48)
  static_assert(kMinRounds_ <= kMaxRounds_, "what is not predicated is held");

  static constexpr int kMinRounds = kMinRounds_;
  static constexpr int kMaxRounds = kMaxRounds_;

  u32 words[kMaxRounds / 4 * 3];  // of four rounds: positions, values of the first two, values of the others
  int rounds = 0;                 // even
  u32 begin;

  // To the tile of `count` words a lane from `begin` on.
  SPARSMITH_DEVICE void turn_to(u32 begin_, int count) {
    begin = begin_;
    rounds = count / 3 * 4 + count % 3;
  }
  SPARSMITH_DEVICE void load(const u32* entries) {
    const u32* from = scatter::lane_words(entries, begin);
    SPARSMITH_UNROLL for (int w = 0; w < kMaxRounds / 4 * 3; ++w) {
      const int round = w / 3 * 4 + (w % 3 == 2 ? 2 : 0);  // the first one that needs the word
      if (round < kMinRounds || round < rounds) words[w] = load_streaming(from + w * scatter::kLanes);
    }
  }

  SPARSMITH_DEVICE void put(const u32* entries, u8* tile) const { store<false, kMaxRounds>(entries, tile); }
  SPARSMITH_DEVICE void clear(const u32* entries, u8* tile) const { store<true, kMaxRounds>(entries, tile); }
  // The same without load(): slowly, in no registers.
  SPARSMITH_DEVICE void put_unloaded(const u32* entries, u8* tile) const { store<false, 0>(entries, tile); }
  SPARSMITH_DEVICE void clear_unloaded(const u32* entries, u8* tile) const { store<true, 0>(entries, tile); }

 private:
  // Of the first kHeld rounds the words are in registers.
  template <bool kZero, int kHeld>
  SPARSMITH_DEVICE void store(const u32* entries, u8* tile) const {
    SPARSMITH_UNROLL for (int r = 0; r < kHeld; r += 2) {
      if (r < kMinRounds || r < rounds) {
        store_two<kZero>(tile, words[r / 4 * 3], r % 4, words[r / 4 * 3 + 1 + r % 4 / 2]);
      }
    }
    SPARSMITH_ROLLED for (int r = kHeld; r < rounds; r += 2) {
      const u32* group = scatter::lane_words(entries, begin) + r / 4 * 3 * scatter::kLanes;
      const u32 values = kZero ? 0 : load_streaming(group + (1 + r % 4 / 2) * scatter::kLanes);
      store_two<kZero>(tile, load_streaming(group) >> (8 * (r % 4)), 0, values);
    }
  }

  // Positions stand at bytes `first` and the next of `positions`.
  template <bool kZero>
  static SPARSMITH_DEVICE void store_two(u8* tile, u32 positions, int first, u32 values) {
    const u32 lane = thread_index() % scatter::kLanes * 4;
    SPARSMITH_UNROLL for (int i = 0; i < 2; ++i) {
      const int shift = 8 * (first + i);
      const u32 element = dot_bytes(positions & 0x03030303U, 2U << shift, lane);
      const u32 offset = dot_bytes(positions & 0xFCFCFCFCU, 32U << shift, element);
      scatter::store_element(tile, offset, kZero ? 0 : values >> (16 * i));
    }
  }
};

}  // namespace sparsmith
