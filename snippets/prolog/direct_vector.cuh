// Gathers kTokens tokens of X from global memory, through L1: for a K too large for shared memory, and for weights with
// so few nonzeros that staging X would take longer.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value, int kTokens>
struct DirectVector {
  SPARSMITH_ROLE(prolog)

  static constexpr int kScale = 1;  // offsets are columns

  static SPARSMITH_DEVICE int shared_bytes(int /*cols*/) { return 0; }

  const Value* x;
  i64 column_stride;
  i64 token_stride;
  int cols;
  const Value* from = nullptr;  // the first token
  int valid = 0;                // tokens that exist

  SPARSMITH_DEVICE DirectVector(const Value* x_, i64 column_stride_, i64 token_stride_, int cols_, u8* /*shared*/)
      : x(x_), column_stride(column_stride_), token_stride(token_stride_), cols(cols_) {}

  // Turns to the tokens from `token` on, of `n`.
  SPARSMITH_DEVICE void begin(int token, int n) {
    from = x + token * token_stride;
    valid = n - token;
  }
  SPARSMITH_DEVICE void wait() const {}

  // The column K is padding: 0. Loads do not depend on whether a column is padding, so that many are in flight at once.
  // Tokens beyond n repeat the first token.
  SPARSMITH_DEVICE float at(u32 column, int t) const {
    const bool padding = column >= static_cast<u32>(cols);
    const i64 skipped = t < valid ? t * token_stride : 0;
    const float value = to_float(load_coherent(from + (padding ? 0 : column) * column_stride + skipped));
    return padding ? 0.0F : value;
  }
};

}  // namespace sparsmith
