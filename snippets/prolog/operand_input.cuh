// X as operands that a launch in front has laid out (kernels/relayout_operands.cuh): what a lane takes for a
// multiplication is 16 bytes beside those of its neighbours, whatever the layout and alignment of X were.
#pragma once

#include "formats/two_four_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value_, bool kTokenMajor_>
struct OperandInput {
  SPARSMITH_ROLE(prolog)
  static_assert(sizeof(Value_) == 2, "sparse tensor cores take 16-bit values");

  using Value = Value_;
  static constexpr bool kTokenMajor = kTokenMajor_;
  static constexpr int kTileBytes = 2 * two_four::kLanes * 16;  // of 8 tokens in a strip
  using Words = Vector<u32, 4>;
  struct Fragment {
    u32 words[8];  // 4 q and on are the operand of multiplication q
  };

  const u8* operands;  // [strip][token_tiles][2][32][4 words]; token_tiles is a multiple of a block's
  i64 strip_bytes;
  const Value* x;  // where single elements are looked up
  i64 ldx;
  int cols;
  int n;
  const u8* next = nullptr;  // this lane's words of the strip that is loaded, in the first token tile

  SPARSMITH_DEVICE OperandInput(const u8* operands_, int token_tiles, const Value* x_, i64 ldx_, int cols_, int n_)
      : operands(operands_),
        strip_bytes(static_cast<i64>(token_tiles) * kTileBytes),
        x(x_),
        ldx(ldx_),
        cols(cols_),
        n(n_) {}

  // Turns to the token tiles from `first_token` on, and to the strip that begins at `first_column`.
  SPARSMITH_DEVICE void turn_to(int first_token, int first_column) {
    next = operands + first_column / two_four::kStripColumns * strip_bytes + first_token / 8 * kTileBytes +
           lane_index() * 16;
  }
  SPARSMITH_DEVICE void advance(int columns) { next += columns / two_four::kStripColumns * strip_bytes; }

  // What multiplication kStep of a strip takes of X: this lane's share of token tile `tile`.
  template <int kStep>
  SPARSMITH_DEVICE void load(int tile, int /*first_column*/, Fragment& fragment) const {
    const u8* from = next + tile * kTileBytes + kStep * two_four::kLanes * 16;
    const Words words = load_coherent(reinterpret_cast<const Words*>(from));
    SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) fragment.words[4 * kStep + i] = words[i];
  }

  template <int kStep>
  static SPARSMITH_DEVICE void take(const Fragment& fragment, u32 (&b)[4]) {
    SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) b[i] = fragment.words[4 * kStep + i];
  }

  // One element; outside of X it is 0.
  SPARSMITH_DEVICE float element(int token, int column) const {
    if (token >= n || column >= cols) return 0.0F;
    return to_float(load_coherent(kTokenMajor ? x + token * ldx + column : x + column * ldx + token));
  }
};

}  // namespace sparsmith
