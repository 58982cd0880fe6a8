// Rows of X, gathered from where X lies in global memory: for each entry of a step a team of kTeamLanes lanes brings
// neighbouring tokens of its column, 16 bytes a lane, through L1 and L2.
//
// X is feature-major [K][ldx]. Tokens that do not exist, and entries without a column, are 0 and not read. Rows that
// are not aligned to 16 bytes are read token by token.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/panel_stream.cuh"

namespace sparsmith {

template <class Value_, int kTeamLanes_, bool kWide>
struct GatheredRows {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTeamLanes_, 1, 2, 4, 8)

  using Value = Value_;
  using Entry = panel::Entry<Value, kWide>;
  static constexpr int kTeamLanes = kTeamLanes_;
  static constexpr int kTokens = 16 / static_cast<int>(sizeof(Value));  // of a lane
  static constexpr int kTile = kTokens * kTeamLanes;                    // tokens of a team
  using Tokens = Vector<Value, kTokens>;

  // What a lane holds of the rows that one step names.
  struct Rows {
    Tokens tokens[Entry::kCount];
  };

  const u8* first;  // this lane's first token of column 0
  u32 row_bytes;
  int valid;   // how many of the lane's tokens exist
  bool whole;  // all, and every row is aligned

  // Turns to the token tile that begins at `tile_first`, of `tokens` that X holds.
  SPARSMITH_DEVICE void begin(const Value* x, u32 row_bytes_, int tile_first, int tokens) {
    const int first_token = tile_first + thread_index() % kTeamLanes * kTokens;
    first = reinterpret_cast<const u8*>(x + first_token);
    row_bytes = row_bytes_;
    valid = tokens - first_token;
    whole = valid >= kTokens && (reinterpret_cast<u64>(x) | row_bytes) % 16 == 0;
  }

  SPARSMITH_DEVICE void load(const panel::Step& step, Rows& rows) const {
    if (whole) {
      SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
        const u32 column = Entry::row(step, e);
        rows.tokens[e] = load_cached_if(column != Entry::kNoColumn, reinterpret_cast<const Tokens*>(row_of(column)));
      }
      return;
    }
    SPARSMITH_UNROLL for (int e = 0; e < Entry::kCount; ++e) {
      const u32 column = Entry::row(step, e);
      const Value* from = reinterpret_cast<const Value*>(row_of(column));
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
        rows.tokens[e][t] = Value{};
        if (t < valid && column != Entry::kNoColumn) rows.tokens[e][t] = load_cached(from + t);
      }
    }
  }

 private:
  SPARSMITH_DEVICE const u8* row_of(u32 column) const { return first + static_cast<u64>(column) * row_bytes; }
};

}  // namespace sparsmith
