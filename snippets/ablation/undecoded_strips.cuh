// Strips of a bitmap weight that are not decoded: no counts, no tests of bits, and no values from shared memory. A
// fragment is the words of bits, as they were loaded.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/prolog/bitmap_values.cuh"

namespace sparsmith {

template <class Values>
struct UndecodedStrips : Values {
  SPARSMITH_ROLE(prolog)

  SPARSMITH_DEVICE void begin(const u8* strip) {
    const u32* stored = reinterpret_cast<const u32*>(strip);
    SPARSMITH_UNROLL for (int r = 0; r < Values::kTiles; ++r) {
      this->words[r] = stored[r * bitmap::kLanes + lane_index()];
    }
  }

  template <int kFragment>
  SPARSMITH_DEVICE void take(int r, u32 (&v)[8]) const {
    SPARSMITH_UNROLL for (int i = 0; i < 8; ++i) v[i] = this->words[r];
  }
};

}  // namespace sparsmith
