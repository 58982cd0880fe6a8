// Gathers X from global memory, through L1.
//
// One thread owns kTokens neighbouring tokens; for a column it gets their X values as floats. Feature-major X[K][N]
// gives them as one vector access if the address allows it; token-major X[N][K] costs one access per token.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value, bool kTokenMajor, int kTokenLanes, int kTokens, int kThreads>
struct GlobalInput {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTokenLanes, 1, 2, 4, 8, 16, 32)
  SPARSMITH_TUNE(kTokens, 1, 2, 4, 8)

  static SPARSMITH_DEVICE int shared_bytes(int /*cols*/) { return 0; }

  const Value* x;
  i64 ldx;
  int first_token = 0;  // of this thread
  int valid = 0;        // how many of its tokens exist; the others read 0
  bool whole = false;   // all exist, and a vector access to them is aligned

  SPARSMITH_DEVICE GlobalInput(const Value* x_, i64 ldx_, int /*cols*/, u8* /*shared*/) : x(x_), ldx(ldx_) {}

  // Turns to the token tile that begins at `tile_first`. Every thread of the block calls it.
  SPARSMITH_DEVICE void begin_tile(int tile_first, int token_lane, int n) {
    first_token = tile_first + token_lane * kTokens;
    valid = n - first_token;
    const u64 misaligned =
        (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % (kTokens * sizeof(Value));
    whole = valid >= kTokens && misaligned == 0;
  }

  SPARSMITH_DEVICE void load(u32 column, float (&out)[kTokens]) const {
    if constexpr (!kTokenMajor) {
      const Value* from = x + static_cast<i64>(column) * ldx + first_token;
      if (whole) {
        const auto vector = load_coherent(reinterpret_cast<const Vector<Value, kTokens>*>(from));
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) out[t] = to_float(vector[t]);
      } else {
        SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) out[t] =
            t < valid ? to_float(load_coherent(from + t)) : 0.0F;
      }
    } else {
      const Value* from = x + static_cast<i64>(first_token) * ldx + column;
      SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
        out[t] = t < valid ? to_float(load_coherent(from + t * ldx)) : 0.0F;
      }
    }
  }
};

}  // namespace sparsmith
