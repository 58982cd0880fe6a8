// X for a strip of 64 columns, straight from global memory into the B operands of mma.m16n8k16.
//
// Columns are permuted inside of a strip such that lane 4 g + t needs 16 neighbouring columns of token g for its share
// of all four multiplications: two 16-byte loads of token-major X[N][K] and no shared memory. Feature-major X[K][N],
// what is not aligned, and the last strip of a K that is no multiple of 64 are loaded element by element.
#pragma once

#include "formats/bitmap_layout.h"
#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value_, bool kTokenMajor_>
struct StripInput {
  SPARSMITH_ROLE(prolog)
  static_assert(sizeof(Value_) == 2, "tensor cores take 16-bit values");

  using Value = Value_;
  static constexpr bool kTokenMajor = kTokenMajor_;
  static constexpr int kLaneColumns = bitmap::kStripColumns / 4;
  // Words 2 f and 2 f + 1 are the operand of fragment f.
  using Words = Vector<u32, 4>;
  struct Fragment {
    u32 words[8];
  };

  const Value* x;
  i64 ldx;
  int cols;
  int n;
  bool aligned;

  SPARSMITH_DEVICE StripInput(const Value* x_, i64 ldx_, int cols_, int n_)
      : x(x_),
        ldx(ldx_),
        cols(cols_),
        n(n_),
        aligned(kTokenMajor && (reinterpret_cast<u64>(x_) | static_cast<u64>(ldx_) * sizeof(Value)) % 16 == 0) {}

  // This lane's share of tokens [first_token, first_token + 8) of the strip that begins at first_column. Outside of X
  // it is 0.
  SPARSMITH_DEVICE void load(int first_token, int first_column, Fragment& fragment) const {
    const int token = first_token + thread_index() % bitmap::kLanes / 4;
    const int column = first_column + thread_index() % 4 * kLaneColumns;
    if (aligned && column + kLaneColumns <= cols) {
      Words low = {};
      Words high = {};
      if (token < n) {
        const Words* from = reinterpret_cast<const Words*>(x + token * ldx + column);
        low = load_coherent(from);
        high = load_coherent(from + 1);
      }
      SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) {
        fragment.words[i] = low[i];
        fragment.words[4 + i] = high[i];
      }
    } else {
      SPARSMITH_UNROLL for (int i = 0; i < 8; ++i) {
        fragment.words[i] = bits(token, column + 2 * i) | bits(token, column + 2 * i + 1) << 16;
      }
    }
  }

  // One element; outside of X it is 0.
  SPARSMITH_DEVICE float element(int token, int column) const {
    return to_float(Value{static_cast<u16>(bits(token, column))});
  }

 private:
  SPARSMITH_DEVICE u32 bits(int token, int column) const {
    if (token >= n || column >= cols) return 0;
    const i64 at = kTokenMajor ? token * ldx + column : column * ldx + token;
    return load_coherent(x + at).bits;
  }
};

}  // namespace sparsmith
