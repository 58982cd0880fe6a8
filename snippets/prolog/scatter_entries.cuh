// The list of a tile's nonzeros, held in registers: it makes the tile dense, and later zero again.
//
// A lane requests its words of a tile while the previous tile is multiplied. put() stores each entry's value at its
// position in the warp's own tile, one round after the other. clear() uses the same registers to set these positions
// back to 0, so that a tile is zeroed as a whole only once. kMinRounds rounds of every tile are at an address that
// follows from the tile's number alone. The rounds up to kMaxRounds are predicated; further rounds are loaded when they
// are needed. Where the next list is to be loaded before clear(), places() keep what it needs in fewer registers.
#pragma once

#include "formats/scatter_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

namespace scatter {

// The arrays of a packed weight.
struct Weight {
  const u32* entries;
  const u32* more_entries;
  const u32* more_offsets;
  const u32* row_parts;
  int rows;
  int row_blocks;
  int column_tiles;
};

// Computed as unsigned, which takes one instruction instead of four.
SPARSMITH_DEVICE int lane_of_warp() { return static_cast<int>(static_cast<u32>(thread_index()) % kLanes); }

// A lane's words of a tile: the kFixed words that every tile has, and as many of the others as kHeld registers hold.
template <int kFixed_, int kHeld_>
struct TileWords {
  static constexpr int kFixed = kFixed_;
  static constexpr int kHeld = kHeld_;

  u32 words[kHeld] = {};
  u32 more;  // the line of more_entries that the rest begins at
  int count = 0;

  // Turns to the tile whose further lines are [begin, end).
  SPARSMITH_DEVICE void turn_to(u32 begin, u32 end) {
    more = begin;
    count = kFixed + static_cast<int>(end - begin);
  }

  // Loads the fixed words. `fixed`: the first words of all lanes.
  SPARSMITH_DEVICE void load_fixed(const u8* fixed) {
    const u32 lane = static_cast<u32>(lane_of_warp());
    const u8* fours = fixed + lane * 16;
    const u8* pairs = fixed + (lane * 8 + kFixed / 4 * 4 * kLineBytes);
    const u8* singles = fixed + (lane * 4 + kFixed / 2 * 2 * kLineBytes);
    SPARSMITH_UNROLL for (int i = 0; i + 4 <= kFixed; i += 4) load_vector<4>(fours + i * kLineBytes, i);
    if constexpr (kFixed % 4 >= 2) load_vector<2>(pairs, kFixed / 4 * 4);
    if constexpr (kFixed % 2 == 1) load_vector<1>(singles, kFixed - 1);
  }

  // Loads the further words. `further`: more_entries, from this lane on.
  SPARSMITH_DEVICE void load_more(const u32* further) {
    const u32* from = further + static_cast<u64>(more) * kLanes;
    SPARSMITH_UNROLL for (int i = kFixed; i < kHeld; ++i) {
      words[i] = 0;  // not what it was before: that shall take no register
      if (i < count) words[i] = load_streaming(from + (i - kFixed) * kLanes);
    }
  }

  // Word i of this lane, from memory. `tile`: the tile's number.
  SPARSMITH_DEVICE u32 word_at(const Weight& weight, i64 tile, int i) const {
    const u32* from = i < kFixed
                          ? weight.entries + tile * kFixed * kLanes + fixed_index(kFixed, lane_of_warp(), i)
                          : weight.more_entries + (static_cast<i64>(more) + i - kFixed) * kLanes + lane_of_warp();
    return load_streaming(from);
  }

 private:
  template <int kCount>
  SPARSMITH_DEVICE void load_vector(const u8* from, int first) {
    const Vector<u32, kCount> loaded = load_streaming(reinterpret_cast<const Vector<u32, kCount>*>(from));
    SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) words[first + i] = loaded[i];
  }
};

// Prefetches `lines` of a packed weight to L2. Every lane calls it.
SPARSMITH_DEVICE void prefetch_lines(const u32* first, int lines) {
  if (lane_of_warp() == 0 && lines > 0) bulk_prefetch(first, lines * kLineBytes);
}

// A warp's walk along its tiles, every kStride-th; or along the tiles of kRowTiles row blocks together, one tile of
// each and then the next ones. Two lists may alternate: one is in use while the other's words arrive.
template <class List, int kStride = 1, int kRowTiles = 1>
struct TileCursor {
  const u8* fixed;  // of the next tile to be loaded of the first row block
  i64 block_bytes;  // from there to the next row block's
  const u32* further;
  const u32* offsets;   // from the warp's first tile on
  int block_tiles;      // from one row block's to the next one's
  int last;             // of them that are needed
  int next = 0;         // tile, in steps of kStride
  int window = 0;       // the tile whose offset lane 0 holds
  u32 held[kRowTiles];  // this lane's offset
  u32 held_end;         // where its tiles lie far apart, the one behind it
  i32 none;             // 0, which the compiler does not know

  // Loads the words of the first tile that are at a known place; begin() must follow. block_tiles: the number of tiles
  // from one row block to the next.
  SPARSMITH_DEVICE TileCursor(const Weight& weight, int first_tile, int count, List& list, int block_tiles_ = 0)
      : TileCursor(weight, first_tile, count, block_tiles_) {
    look_at(0);
    load_fixed<0>(list);
  }

  // The same, but offsets go through shared memory, so that begin() waits for them alone: loads wait at one scoreboard,
  // so a wait for an offset would also wait for all entries in flight. begin() with the same place must follow. place:
  // [kRowTiles][32] words of this warp.
  SPARSMITH_DEVICE TileCursor(const Weight& weight, int first_tile, int count, List& list, int block_tiles_, u32* place)
      : TileCursor(weight, first_tile, count, block_tiles_) {
    static_assert(!kApart, "a lane holds one offset");
    SPARSMITH_UNROLL for (int r = 0; r < kRowTiles; ++r) {
      async_copy<4>(place + r * kLanes + lane_of_warp(), own_offset(0, r));
    }
    async_commit();
    load_fixed<0>(list);
  }

  // Loads the further words of the first tile. It is a separate function because it has to wait for the tile's offset.
  SPARSMITH_DEVICE void begin(List& list) {
    turn<0>(list);
    list.load_more(further);
  }
  SPARSMITH_DEVICE void begin(List& list, const u32* place) {
    // In a loop, because the compiler moves no load past it. Otherwise it would start the loads of the first tile after
    // the wait.
    SPARSMITH_ROLLED for (int i = none; i < 1; ++i) async_wait<0>();
    SPARSMITH_UNROLL for (int r = 0; r < kRowTiles; ++r) held[r] = place[r * kLanes + lane_of_warp()];
    begin(list);
  }

  // Loads the next tile, of row block kRow, to `list`. It requests nothing before `word`, a word of the tile in use, is
  // there: loads wait at few scoreboards. If these loads were in flight while the warp waits for earlier ones, it would
  // wait for them too.
  template <int kRow = 0>
  SPARSMITH_DEVICE void load(List& list, u32 word) {
    turn<kRow>(list);
    fixed += static_cast<i32>(word) & none;
    load_fixed<kRow>(list);
    list.load_more(further);
  }

  // Prefetches to L2 the further words of the tiles behind the first one, as far as their offsets are available.
  // REQUIRES: begin() has been called.
  SPARSMITH_DEVICE void prefetch_rest() const {
    SPARSMITH_UNROLL for (int r = 0; r < kRowTiles; ++r) {
      const u32 begin = shuffle_index(held[r], r == 0 ? 1 : 0);
      const u32 end = shuffle_index(held[r], kLanes - 1);
      prefetch_lines(further + static_cast<u64>(begin) * kLanes - lane_of_warp(), static_cast<int>(end - begin));
    }
  }

  // Prefetches to L2 the words at a known place of the next tile. REQUIRES: there is a next tile.
  SPARSMITH_DEVICE void prefetch_next() const {
    SPARSMITH_UNROLL for (int i = 0; i < List::kFixed; i += kLanes) {
      const int line = i + lane_of_warp();
      if (line < List::kFixed) prefetch(fixed + line * kLineBytes);
    }
  }

 private:
  // With a large stride, a window of neighbouring tiles' offsets would hold only few of the warp's tiles. Then a lane
  // holds two offsets of its own.
  static constexpr bool kApart = kStride > 4;
  static_assert(!kApart || kRowTiles == 1, "tiles of one row block");

  SPARSMITH_DEVICE TileCursor(const Weight& weight, int first_tile, int count, int block_tiles_)
      : fixed(reinterpret_cast<const u8*>(weight.entries + static_cast<i64>(first_tile) * List::kFixed * kLanes)),
        block_bytes(static_cast<i64>(block_tiles_) * List::kFixed * kLineBytes),
        further(weight.more_entries + lane_of_warp()),
        offsets(weight.more_offsets + first_tile),
        block_tiles(block_tiles_),
        last(count > 0 ? (count - 1) * kStride + 1 : 0),
        none(weight.rows >> 31) {}

  template <int kRow>
  SPARSMITH_DEVICE void turn(List& list) {
    if constexpr (kApart) {
      if (next - window >= kLanes * kStride) look_at(next);
      const int lane = (next - window) / kStride;
      list.turn_to(shuffle_index(held[0], lane), shuffle_index(held_end, lane));
    } else {
      if (kRow == 0 && next - window >= kLanes - 1) look_at(next);
      list.turn_to(shuffle_index(held[kRow], next - window), shuffle_index(held[kRow], next - window + 1));
    }
    if (kRow == kRowTiles - 1) next += kStride;
  }

  template <int kRow>
  SPARSMITH_DEVICE void load_fixed(List& list) {
    list.load_fixed(kRow == 0 ? fixed : fixed + kRow * block_bytes);
    if (kRow == kRowTiles - 1) fixed += kStride * List::kFixed * kLineBytes;
  }

  SPARSMITH_DEVICE void look_at(int tile) {
    window = tile;
    if constexpr (kApart) {
      const int own = tile + lane_of_warp() * kStride;
      const u32* from = offsets + (own < last ? own : last > 0 ? last - 1 : 0);
      held[0] = load_cached(from);
      held_end = load_cached(from + 1);
      return;
    }
    SPARSMITH_UNROLL for (int r = 0; r < kRowTiles; ++r) held[r] = load_cached(own_offset(tile, r));
  }

  // This lane's offset, in the window that begins at `tile` of row block `row`.
  SPARSMITH_DEVICE const u32* own_offset(int tile, int row) const {
    const int own = tile + lane_of_warp();
    return offsets + (own < last ? own : last) + row * block_tiles;
  }
};

constexpr i64 kAnyTile = 0;  // the number matters to no one: all words that it would locate are held

// The common part of all kinds of entries. Kind: derives from it.
template <class Kind, int kMinRounds, int kMaxRounds>
struct Entries {
  SPARSMITH_DEVICE bool empty() const { return kMinRounds == 0 && kind().list.count == 0; }
  SPARSMITH_DEVICE void put(const Weight& weight, i64 tile, u32 base) const {
    kind().template store<false, kMaxRounds>(weight, tile, base);
  }
  SPARSMITH_DEVICE void clear(const Weight& weight, u32 base) const {
    kind().template store<true, kMaxRounds>(weight, kAnyTile, base);
  }
  // The same for words that are not held: slow, and without registers.
  SPARSMITH_DEVICE void put_unloaded(const Weight& weight, i64 tile, u32 base) const {
    kind().template store<false, 0>(weight, tile, base);
  }
  SPARSMITH_DEVICE void clear_unloaded(const Weight& weight, i64 tile, u32 base) const {
    kind().template store<true, 0>(weight, tile, base);
  }

 private:
  SPARSMITH_DEVICE const Kind& kind() const { return static_cast<const Kind&>(*this); }
};

// Zeroes all of a warp's tile.
SPARSMITH_DEVICE void zero_tile(u8* tile) {
  SPARSMITH_UNROLL for (int i = 0; i < kTileBytes / 512; ++i) {
    *reinterpret_cast<Vector<u32, 4>*>(tile + i * 512 + lane_of_warp() * 16) = {};
  }
  warp_barrier();
}
// kWhole: the whole tile is cleared, not entry by entry.
template <bool kWhole, class List>
SPARSMITH_DEVICE void clear_tile(const Weight& weight, u8* tile, u32 base, const List& list) {
  if constexpr (kWhole) {
    zero_tile(tile);
  } else {
    list.clear(weight, base);
    warp_barrier();
  }
}

// Copies the first rows of the parts of kBlocks row blocks, kRowParts each, to shared memory. Returns whether this
// thread has begun an asynchronous copy.
template <int kBlocks, int kRowParts>
SPARSMITH_DEVICE bool copy_first_rows(const Weight& weight, int first_block, u32* first_rows) {
  if (thread_index() >= kBlocks) return false;
  u32* to = first_rows + thread_index() * kRowParts;
  if (first_block + thread_index() < weight.row_blocks) {
    async_copy<kRowParts * 4>(to, weight.row_parts + (first_block + thread_index()) * kRowParts);
    return true;
  }
  SPARSMITH_UNROLL for (int i = 0; i < kRowParts; ++i) to[i] = static_cast<u32>(weight.rows);
  return false;
}

}  // namespace scatter

// Entries of one word: any lane may hold any position.
template <int kMinRounds, int kMaxRounds>
struct WordEntries : scatter::Entries<WordEntries<kMinRounds, kMaxRounds>, kMinRounds, kMaxRounds> {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kMinRounds, 0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64)
  SPARSMITH_TUNE(kMaxRounds, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64, 72)
  static_assert(kMinRounds <= kMaxRounds, "what is not predicated is held");

  using Words = scatter::TileWords<kMinRounds, kMaxRounds>;

  Words list;

  // Where a lane's entries are, in half of the words.
  struct Places {
    u32 pairs[(kMaxRounds + 1) / 2] = {};
    Words list;  // without words

    SPARSMITH_DEVICE void clear(const scatter::Weight& weight, u32 base) const {
      SPARSMITH_UNROLL for (int r = 0; r < kMaxRounds; ++r) {
        const u32 at = dot_halves(pairs[r / 2], 1U << (8 * (r % 2)), base);
        store_shared_low_if(r < kMinRounds || r < list.count, at, 0);
      }
      store_late<true, kMaxRounds>(list, weight, scatter::kAnyTile, base);
    }
  };
  SPARSMITH_DEVICE Places places() const {
    Places places;
    SPARSMITH_UNROLL for (int r = 0; r < kMaxRounds; r += 2) {
      places.pairs[r / 2] = permute_bytes(list.words[r], r + 1 < kMaxRounds ? list.words[r + 1] : 0, 0x7632);
    }
    places.list.more = list.more;
    places.list.count = list.count;
    return places;
  }

  // Where this lane's positions in a tile count from.
  static SPARSMITH_DEVICE u32 base(u32 tile_at) { return tile_at; }

  // Of the first kHeld rounds the words are in registers.
  template <bool kZero, int kHeld>
  SPARSMITH_DEVICE void store(const scatter::Weight& weight, i64 tile, u32 base) const {
    SPARSMITH_UNROLL for (int r = 0; r < kHeld; ++r) {
      const u32 word = list.words[r];
      store_shared_low_if(r < kMinRounds || r < list.count, base + (word >> 16), kZero ? 0 : word);
    }
    store_late<kZero, kHeld>(list, weight, tile, base);
  }

 private:
  // The rounds that are not held.
  template <bool kZero, int kHeld>
  static SPARSMITH_DEVICE void store_late(const Words& list, const scatter::Weight& weight, i64 tile, u32 base) {
    SPARSMITH_ROLLED for (int r = kHeld; r < list.count; ++r) {
      const u32 word = list.word_at(weight, tile, r);
      store_shared_low(base + (word >> 16), kZero ? 0 : word);
    }
  }
};

// Entries of three bytes: a lane stores to its own bank or the next one, so a byte is enough for a position.
template <int kMinRounds, int kMaxRounds>
struct ByteEntries : scatter::Entries<ByteEntries<kMinRounds, kMaxRounds>, kMinRounds, kMaxRounds> {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kMinRounds, 0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64)
  SPARSMITH_TUNE(kMaxRounds, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64, 72)
  static_assert(kMinRounds <= kMaxRounds, "what is not predicated is held");

  // Of a tile's fixed rounds, all positions come before all values; their registers are free after they have been
  // stored. Further rounds come four by four: positions, values of the first two, values of the other two.
  using Words = scatter::TileWords<kMinRounds / 4 * 3, kMaxRounds / 4 * 3>;

  Words list;

  // Where a lane's entries are.
  struct Places {
    u32 positions[kMaxRounds / 4] = {};
    Words list;  // without words

    SPARSMITH_DEVICE void clear(const scatter::Weight& weight, u32 base) const {
      SPARSMITH_UNROLL for (int r = 0; r < kMaxRounds; r += 2) {
        store_two<true>(r < kMinRounds || value_word(r) < list.count, base, positions[r / 4], r % 4, 0);
      }
      store_late<true, kMaxRounds>(list, weight, scatter::kAnyTile, base);
    }
  };
  SPARSMITH_DEVICE Places places() const {
    Places places;
    SPARSMITH_UNROLL for (int r = 0; r < kMaxRounds; r += 4) places.positions[r / 4] = list.words[position_word(r)];
    places.list.more = list.more;
    places.list.count = list.count;
    return places;
  }

  // Where this lane's positions in a tile count from.
  static SPARSMITH_DEVICE u32 base(u32 tile_at) { return tile_at + static_cast<u32>(scatter::lane_of_warp()) * 4; }

  // Of the first kHeld rounds the words are in registers.
  template <bool kZero, int kHeld>
  SPARSMITH_DEVICE void store(const scatter::Weight& weight, i64 tile, u32 base) const {
    SPARSMITH_UNROLL for (int r = 0; r < kHeld; r += 2) {
      store_two<kZero>(r < kMinRounds || value_word(r) < list.count, base, list.words[position_word(r)], r % 4,
                       list.words[value_word(r)]);
    }
    store_late<kZero, kHeld>(list, weight, tile, base);
  }

 private:
  // The rounds that are not held, an even number.
  template <bool kZero, int kHeld>
  static SPARSMITH_DEVICE void store_late(const Words& list, const scatter::Weight& weight, i64 tile, u32 base) {
    if (list.count <= kHeld / 4 * 3) return;
    const int rounds = list.count / 3 * 4 + list.count % 3;
    SPARSMITH_ROLLED for (int r = kHeld; r < rounds; r += 2) {
      const u32 values = kZero ? 0 : list.word_at(weight, tile, value_word(r));
      store_two<kZero>(true, base, list.word_at(weight, tile, position_word(r)) >> (8 * (r % 4)), 0, values);
    }
  }

  // The words that hold a round's position and value.
  static constexpr SPARSMITH_DEVICE int position_word(int round) {
    return round < kMinRounds ? round / 4 : Words::kFixed + (round - kMinRounds) / 4 * 3;
  }
  static constexpr SPARSMITH_DEVICE int value_word(int round) {
    return round < kMinRounds ? kMinRounds / 4 + round / 2 : position_word(round) + 1 + round % 4 / 2;
  }

  // The positions are bytes `first` and `first` + 1 of `positions`.
  template <bool kZero>
  static SPARSMITH_DEVICE void store_two(bool there, u32 base, u32 positions, int first, u32 values) {
    u32 at[2];
    SPARSMITH_UNROLL for (int i = 0; i < 2; ++i) {
      const int shift = 8 * (first + i);
      const u32 element = dot_bytes(positions & 0x03030303U, 2U << shift, base);
      at[i] = dot_bytes(positions & 0xFCFCFCFCU, 32U << shift, element);
    }
    store_shared_low_if(there, at[0], kZero ? 0 : values);
    store_shared_high_if(there, at[1], kZero ? 0 : values);
  }
};

}  // namespace sparsmith
