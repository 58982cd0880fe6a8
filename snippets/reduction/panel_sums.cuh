// Where the sums of segments go when their task ends: to slots in shared memory, that are added up row by row when the
// part is done, or with kWholeRows, for a row that is all in one segment, straight through the epilog.
#pragma once

#include "formats/panel_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

namespace panel {

template <class Output, bool kWholeRows_>
struct Sums {
  SPARSMITH_ROLE(reduction)
  static constexpr bool kWholeRows = kWholeRows_;

  float* slots;     // in shared memory
  float* infinite;  // becomes nonzero where they are not to be trusted
  const Output& output;
  u32 first_row;  // of the part
  int first_token;
  int n;

  // Whether a segment stores its row, instead of leaving its sums in a slot.
  static SPARSMITH_DEVICE bool is_row(u32 slot) { return kWholeRows && (slot & kWholeRow) != 0; }
  template <int kTokens>
  SPARSMITH_DEVICE void store_row(u32 slot, int token, const float (&sums)[kTokens]) const {
    output.store(first_row + (slot & ~kWholeRow), first_token + token, n, sums);
  }
};

}  // namespace panel

}  // namespace sparsmith
