// A square of token-major X, 16 bytes of columns for equally many tokens, that a thread turns in its registers: the
// result is a vector of tokens for each column. Tokens and columns that do not exist are 0.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value>
struct TurnedSquare {
  SPARSMITH_ROLE(prolog)

  static constexpr int kBytes = 16;
  static constexpr int kSide = kBytes / static_cast<int>(sizeof(Value));
  using Line = Vector<Value, kSide>;

  Line columns[kSide];

  // Whether the rows of X begin at multiples of 16 bytes.
  static SPARSMITH_DEVICE bool aligned(const Value* x, i64 ldx) {
    return (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % kBytes == 0;
  }

  // x: the square's first column of its first token. valid_columns, valid_tokens: the columns and tokens that exist;
  // they may also be more than kSide, or 0.
  SPARSMITH_DEVICE void load(const Value* x, i64 ldx, bool rows_aligned, int valid_columns, int valid_tokens) {
    Line tokens[kSide] = {};
    if (rows_aligned && valid_columns >= kSide) {
      SPARSMITH_UNROLL for (int t = 0; t < kSide; ++t) {
        if (t < valid_tokens) tokens[t] = load_coherent(reinterpret_cast<const Line*>(x + t * ldx));
      }
    } else {
      SPARSMITH_UNROLL for (int t = 0; t < kSide; ++t) {
        SPARSMITH_UNROLL for (int c = 0; c < kSide; ++c) {
          if (t < valid_tokens && c < valid_columns) tokens[t][c] = load_coherent(x + t * ldx + c);
        }
      }
    }
    SPARSMITH_UNROLL for (int c = 0; c < kSide; ++c) {
      SPARSMITH_UNROLL for (int t = 0; t < kSide; ++t) columns[c][t] = tokens[t][c];
    }
  }
};

}  // namespace sparsmith
