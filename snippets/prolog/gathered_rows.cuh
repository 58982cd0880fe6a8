// Gathers rows of X from global memory: for each entry of a step, a team of kTeamLanes lanes loads neighbouring tokens
// of the entry's column, 16 bytes per lane, through L1 and L2.
//
// X is feature-major [K][ldx]. Tokens that do not exist, and tokens of no entry, are 0 and not read. Rows that are not
// aligned to 16 bytes are read token by token. kRelaid: X has been laid out for this, with aligned and whole rows. A
// row of zeros stands behind the last row, for lanes without an entry.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_stream.cuh"

namespace sparsmith {

namespace panel {

template <int kBytes>
struct BitsOf {
  using Type = u16;
};
template <>
struct BitsOf<4> {
  using Type = u32;
};

// One entry of a team's step: its column and its weight. kWide: each has its own word.
template <class Value, bool kWide>
struct GatherEntry {
  using Step = panel::Step;
  static constexpr int kCount = kWide ? 2 : 4;  // of a team's step
  static constexpr u32 kEnd = kWide ? panel::kWideTaskEnd : panel::kTaskEnd;

  // The same for every lane of a step.
  static SPARSMITH_DEVICE bool ends_task(const panel::Step& step) { return (step[0] & kEnd) != 0; }
  static SPARSMITH_DEVICE u32 column(const panel::Step& step, int e) {
    return kWide ? first_word(step, e) : first_word(step, e) & 0xFFFFU;
  }
  static SPARSMITH_DEVICE float weight(const panel::Step& step, int e) {
    const u32 bits = kWide ? step[2 * e % 4 + 1] : step[e] >> 16;
    if constexpr (sizeof(Value) == 4) {
      return float_from_bits(bits);
    } else {
      return to_float(Value{static_cast<u16>(bits)});
    }
  }
  // The weight in both halves of a word; for 16-bit values.
  static SPARSMITH_DEVICE u32 weight_pair(const panel::Step& step, int e) {
    return kWide ? permute_bytes(step[2 * e % 4 + 1], 0, 0x1010U) : permute_bytes(step[e], 0, 0x3232U);
  }

 private:
  static SPARSMITH_DEVICE u32 first_word(const panel::Step& step, int e) {
    const u32 word = step[kWide ? 2 * e % 4 : e];
    return e == 0 ? word & ~kEnd : word;
  }
};

}  // namespace panel

template <class Value_, int kTeamLanes_, bool kWide, bool kRelaid_>
struct GatheredRows {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTeamLanes_, 1, 2, 4, 8)

  using Value = Value_;
  using Entry = panel::GatherEntry<Value, kWide>;
  static constexpr int kTeamLanes = kTeamLanes_;
  static constexpr bool kRelaid = kRelaid_;
  static constexpr int kTokens = 16 / static_cast<int>(sizeof(Value));  // of a lane
  static constexpr int kTile = kTokens * kTeamLanes;                    // tokens of a team
  using Words = Vector<u32, 4>;
  static constexpr int kWordTokens = kTokens / 4;

  // A lane's part of the row of an entry: whole words, which stay as loaded until a product takes them apart.
  struct Row {
    Words words;
  };
  // The rows of all entries of a step.
  struct Rows {
    Row of[Entry::kCount];
  };

  const u8* first;  // this lane's first token of column 0
  u32 row_bytes;
  u32 columns;
  int valid;   // how many of the lane's tokens exist
  bool whole;  // every row is aligned, and each lane of the block's teams has all its tokens or none: load() serves

  // Turns to the token tile that begins at `tile_first`. X holds `tokens` tokens for each of `columns_` columns.
  SPARSMITH_DEVICE void begin(const Value* x, u32 row_bytes_, int columns_, int tile_first, int tokens) {
    const int first_token = tile_first + thread_index() % kTeamLanes * kTokens;
    first = reinterpret_cast<const u8*>(x + first_token);
    row_bytes = row_bytes_;
    columns = static_cast<u32>(columns_);
    valid = tokens - first_token;
    const bool full = tokens % kTokens == 0 || tile_first + kTile <= tokens;
    whole = kRelaid || (full && (reinterpret_cast<u64>(x) | row_bytes) % 16 == 0);
    if (whole && valid <= 0) {  // a lane without tokens reads what is there, for nothing
      first = reinterpret_cast<const u8*>(x);
      row_bytes = 0;
    }
  }

  // Loads the rows of a step. REQUIRES: `whole`.
  SPARSMITH_DEVICE void load(const panel::Step& step, Rows& rows) const {
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      const u32 column = Entry::column(step, e);
      const auto* from = reinterpret_cast<const Words*>(row_of(column));
      if constexpr (kRelaid) {
        rows.of[e].words = load_coherent(from);
      } else {
        rows.of[e].words = load_coherent_if(column < columns, from);
      }
    }
  }

  // The row of one entry, if not `whole`: token by token, in a loop that is not unrolled, so that it needs few
  // registers.
  SPARSMITH_DEVICE Row load_by_token(const panel::Step& step, int e) const {
    const u32 column = Entry::column(step, e);
    const auto* from = reinterpret_cast<const Bits*>(row_of(column));
    const int count = column < columns ? valid : 0;
    Row row = {};
    SPARSMITH_ROLLED for (int t = 0; t < kTokens; ++t) push(row.words, t < count ? load_coherent(from + t) : 0);
    return row;
  }

 private:
  using Bits = typename panel::BitsOf<sizeof(Value)>::Type;

  // Moves all tokens down by one; `bits` becomes the last.
  static SPARSMITH_DEVICE void push(Words& words, u32 bits) {
    SPARSMITH_UNROLL for (int w = 0; w < 4; ++w) {
      const u32 above = w < 3 ? words[(w + 1) % 4] : bits;
      words[w] = kWordTokens == 1 ? above : words[w] >> 16 | above << 16;
    }
  }
  SPARSMITH_DEVICE const u8* row_of(u32 column) const { return first + static_cast<u64>(column) * row_bytes; }
};

}  // namespace sparsmith
