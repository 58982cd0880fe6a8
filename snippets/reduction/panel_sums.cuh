// The sums of segments when their task ends. They go to slots in shared memory, which are added up row by row when the
// part is done. A row that is entirely in one segment may instead go straight through the epilog: to Y or, if Y needs
// neighbouring rows together, to a place in shared memory, rounded as it will be stored. If a block processes all parts
// of K, slots hold the sums of the earlier parts.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

namespace panel {

// kTokens: tokens of all panels of the block.
template <class Value, class Output, RowStore kStore_, int kTokens>
struct Sums {
  SPARSMITH_ROLE(reduction)
  static constexpr RowStore kStore = kStore_;

  Value* rows;      // in shared memory, [rows of the part][kTokens]; staged ones
  float* slots;     // in shared memory
  float* infinite;  // becomes nonzero where they are not to be trusted
  const Output& output;
  u32 first_row;  // of the part
  int first_token;
  int n;

  // The place of the sum of a slot's token, at or behind a multiple of 4 tokens. Different quads come first in
  // neighbouring slots: 8 lanes that access the same quad of 8 neighbouring slots meet different banks.
  SPARSMITH_DEVICE float* slot(u32 slot, int token) const {
    constexpr u32 kQuads = kTokens / 4;
    const u32 turn = slot / (8 / kQuads) % kQuads * 4;
    return slots + slot * kTokens + (static_cast<u32>(token) ^ turn);
  }

  // Puts four tokens' sums of a segment into its slot.
  SPARSMITH_DEVICE void put(u32 slot_, int token, Vector<float, 4> sums) const {
    auto* held = reinterpret_cast<Vector<float, 4>*>(slot(slot_, token));
    if constexpr (kStore == RowStore::kAdded) {
      const Vector<float, 4> before = *held;
      SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) sums[i] += before[i];
    }
    *held = sums;
  }

  SPARSMITH_DEVICE Value* staged(u32 row, int token) const { return rows + row * kTokens + token; }

  // Whether a segment stores its row, instead of leaving its sums in a slot.
  static constexpr bool kWholeRows = kStore == RowStore::kDirect || kStore == RowStore::kStaged;
  static SPARSMITH_DEVICE bool is_row(u32 slot) { return kWholeRows && (slot & kWholeRow) != 0; }
  template <int kCount>
  SPARSMITH_DEVICE void store_row(u32 slot, int token, const float (&sums)[kCount]) const {
    const u32 row = slot & ~kWholeRow;
    if constexpr (kStore == RowStore::kStaged) {
      *reinterpret_cast<Vector<Value, kCount>*>(staged(row, token)) = output.finished(first_row + row, sums);
    } else {
      output.store(first_row + row, first_token + token, n, sums);
    }
  }
};

}  // namespace panel

}  // namespace sparsmith
