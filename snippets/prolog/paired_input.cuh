// Loads X for a strip of 64 columns from global memory straight into the B operands of mma.sp.m16n8k32.
//
// In the operands, a group of four columns lies in two neighbouring lanes. But a lane that loads 16 bytes of X has
// whole groups. So the lanes of a pair exchange halves: of each group, the even lane keeps the first two columns, the
// odd lane the last two (formats/two_four_layout.h has the order of groups). StripInput does the loading.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/strip_input.cuh"

namespace sparsmith {

template <class Value, bool kTokenMajor>
struct PairedInput : StripInput<Value, kTokenMajor> {
  SPARSMITH_ROLE(prolog)

  using StripInput<Value, kTokenMajor>::StripInput;

  // The operand of multiplication kStep, from the words that all lanes have loaded for it. All lanes of the warp call
  // it.
  template <int kStep>
  static SPARSMITH_DEVICE void take(const typename PairedInput::Fragment& fragment, u32 (&b)[4]) {
    const bool odd = lane_index() % 2 != 0;
    SPARSMITH_UNROLL for (int i = 0; i < 2; ++i) {
      const u32 first = fragment.words[4 * kStep + 2 * i];
      const u32 last = fragment.words[4 * kStep + 2 * i + 1];
      const u32 other = shuffle_xor_word(odd ? first : last, 1);
      b[i] = odd ? other : first;
      b[2 + i] = odd ? last : other;
    }
  }
};

}  // namespace sparsmith
