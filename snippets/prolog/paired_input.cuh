// X for a strip of 64 columns, straight from global memory into the B operands of mma.sp.m16n8k32.
//
// A group of four columns lies in two neighbouring lanes there, while a lane that loads X by 16 bytes has whole groups.
// So the lanes of a pair exchange halves: of each group the even lane keeps the first two columns, the odd one the last
// two (formats/two_four_layout.h has the order of groups). What is loaded, and how, is StripInput's.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"
#include "snippets/prolog/strip_input.cuh"

namespace sparsmith {

template <class Value_, bool kTokenMajor_>
struct PairedInput {
  SPARSMITH_ROLE(prolog)

  using Value = Value_;
  static constexpr bool kTokenMajor = kTokenMajor_;
  using Input = StripInput<Value_, kTokenMajor_>;
  using Fragment = typename Input::Fragment;

  Input input;

  SPARSMITH_DEVICE PairedInput(const Value* x, i64 ldx, int cols, int n) : input(x, ldx, cols, n) {}

  SPARSMITH_DEVICE void turn_to(int first_token, int first_column) { input.turn_to(first_token, first_column); }
  SPARSMITH_DEVICE void advance(int columns) { input.advance(columns); }
  SPARSMITH_DEVICE float element(int token, int column) const { return input.element(token, column); }

  // What multiplication kStep of a strip takes of X: this lane's share of token tile `tile`.
  template <int kStep>
  SPARSMITH_DEVICE void load(int tile, int first_column, Fragment& fragment) const {
    input.template load<kStep>(tile, first_column, fragment);
  }

  // The operand of multiplication kStep, of what all lanes have loaded for it. All lanes of the warp call it.
  template <int kStep>
  static SPARSMITH_DEVICE void take(const Fragment& fragment, u32 (&b)[4]) {
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
