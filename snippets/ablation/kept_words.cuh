// Words that are loaded and then not used, kept such that the compiler cannot leave their loads out.
#pragma once

#include "snippets/device.cuh"

namespace sparsmith {

// They are folded into one, which decides whether something is stored. It hardly ever is, and nobody minds.
struct KeptWords {
  u32 folded = 0;

  SPARSMITH_DEVICE void keep(u32 word) { folded ^= word; }
  // at: shared_offset() of a place of two bytes that this thread may store to; of no use where nothing was kept.
  SPARSMITH_DEVICE void end(u32 at) const { store_shared_low_if(folded == 0x9E3779B9U, at, folded); }
};

// A sum with a word in it, as a number so small that it changes nothing: what is finite stays so, and nobody adds it up
// again. An addition, since the compiler does not put these into another order.
SPARSMITH_DEVICE float with_word(float sum, u32 word) { return sum + float_from_bits(word & 0x7FFFFFU); }

}  // namespace sparsmith
