// Loads X for a strip of 64 columns from global memory straight into the B operands of mma.m16n8k16.
//
// Columns are permuted inside a strip such that lane 4 g + t needs 16 neighbouring columns of token g for its share of
// all four multiplications: two 16-byte loads of token-major X[N][K], and no shared memory. Feature-major X[K][N],
// unaligned X, and the last strip of a K that is no multiple of 64 are loaded element by element.
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
  static constexpr bool kLaidOut = false;
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
  int whole_cols;       // of strips that are loaded as vectors
  const Value* lane_x;  // this lane's first column of the strip that is loaded, in its token of the first token tile
  int lane_tokens = 0;  // from there to n

  SPARSMITH_DEVICE StripInput(const Value* x_, i64 ldx_, int cols_, int n_)
      : x(x_), ldx(ldx_), cols(cols_), n(n_), lane_x(x_) {
    const bool aligned = (reinterpret_cast<u64>(x_) | static_cast<u64>(ldx_) * sizeof(Value)) % 16 == 0;
    whole_cols = kTokenMajor && aligned ? cols_ / bitmap::kStripColumns * bitmap::kStripColumns : 0;
  }

  // Turns to the token tiles from `first_token` on, and to the strip that begins at `first_column`.
  SPARSMITH_DEVICE void turn_to(int first_token, int first_column) {
    const int token = first_token + lane_index() / 4;
    lane_x = x + (token * ldx + first_column + lane_index() % 4 * kLaneColumns);
    lane_tokens = n - token;
  }
  SPARSMITH_DEVICE void advance(int columns) { lane_x += columns; }

  // Words 4 kHalf to 4 kHalf + 3 of this lane's share of token tile `tile` for the strip, which begins at first_column.
  // They are 0 outside X.
  template <int kHalf>
  SPARSMITH_DEVICE void load(int tile, int first_column, Fragment& fragment) const {
    Words words = {};
    if (first_column < whole_cols) {  // the same for all lanes
      if (8 * tile < lane_tokens) {
        words = load_coherent(reinterpret_cast<const Words*>(lane_x + 8 * tile * ldx) + kHalf);
      }
    } else {
      const int token = n - lane_tokens + 8 * tile;
      const int column = first_column + lane_index() % 4 * kLaneColumns + 8 * kHalf;
      if constexpr (kTokenMajor) {
        // Rare: in a loop, so that it costs no registers that the warp needs elsewhere.
        SPARSMITH_ROLLED for (int i = 0; i < 4; ++i) {
          const u32 next = bits(token, column + 2 * i) | bits(token, column + 2 * i + 1) << 16;
          SPARSMITH_UNROLL for (int w = 0; w < 4; ++w) words[w] = w < 3 ? words[w + 1] : next;
        }
      } else {
        SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) {
          words[i] = bits(token, column + 2 * i) | bits(token, column + 2 * i + 1) << 16;
        }
      }
    }
    SPARSMITH_UNROLL for (int i = 0; i < 4; ++i) fragment.words[4 * kHalf + i] = words[i];
  }

  // One element; it is 0 outside X.
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
