// Words that are loaded and then not used, kept such that the compiler cannot leave their loads out.
#pragma once

#include "snippets/device.cuh"

namespace sparsmith {

// They are folded into one, which decides whether something is stored. It hardly ever is, and nobody minds.
class KeptWords {
 public:
  u32 folded = 0;

  SPARSMITH_DEVICE void keep(u32 word) { folded ^= word; }
  // at: shared_offset() of a place of two bytes that this thread may store to; of no use where nothing was kept.
  SPARSMITH_DEVICE void end(u32 at) const { store_shared_low_if(folded == kUnlikely, at, folded); }
  // The same in global memory, for a kernel without any of its own.
  template <class T>
  SPARSMITH_DEVICE void end(T* place) const {
    if (folded == kUnlikely) *place = T{};
  }

 private:
  static constexpr u32 kUnlikely = 0x9E3779B9U;
};

// As many bits of a word as make a float that is finite, and so small that no sum shows it.
SPARSMITH_DEVICE u32 mantissa(u32 word) { return word & 0x7FFFFFU; }
// A sum with those of a word in it: finite if it was, so that nobody adds it up again. An addition, since the compiler
// does not put these into another order.
SPARSMITH_DEVICE float with_word(float sum, u32 word) { return sum + float_from_bits(mantissa(word)); }

}  // namespace sparsmith
