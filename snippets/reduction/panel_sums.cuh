// Where the sums of segments go when their task ends: to slots in shared memory, that are added up row by row when the
// part is done. A row that is all in one segment may go straight through the epilog instead: to Y, or where Y wants
// neighbouring rows together, to a place in shared memory, rounded as it will be stored.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

namespace panel {

template <class Value, class Output, RowStore kStore_>
struct Sums {
  SPARSMITH_ROLE(reduction)
  static constexpr RowStore kStore = kStore_;

  Value* rows;      // in shared memory, [rows of the part][16 bytes of tokens]; staged ones
  float* slots;     // in shared memory
  float* infinite;  // becomes nonzero where they are not to be trusted
  const Output& output;
  u32 first_row;  // of the part
  int first_token;
  int n;

  // Whether a segment stores its row, instead of leaving its sums in a slot.
  static SPARSMITH_DEVICE bool is_row(u32 slot) { return kStore != RowStore::kSlots && (slot & kWholeRow) != 0; }
  template <int kTokens>
  SPARSMITH_DEVICE void store_row(u32 slot, int token, const float (&sums)[kTokens]) const {
    const u32 row = slot & ~kWholeRow;
    if constexpr (kStore == RowStore::kStaged) {
      constexpr int kRowTokens = kRowBytes / static_cast<int>(sizeof(Value));
      *reinterpret_cast<Vector<Value, kTokens>*>(rows + row * kRowTokens + token) =
          output.finished(first_row + row, sums);
    } else {
      output.store(first_row + row, first_token + token, n, sums);
    }
  }
};

}  // namespace panel

}  // namespace sparsmith
