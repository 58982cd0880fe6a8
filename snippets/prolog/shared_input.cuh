// Stages X: the block copies the columns of its token tile into shared memory once, as a panel [K][kTokenLanes *
// kTokens], and gathers from there.
//
// A gather costs a shared-memory access instead of an L1 or L2 access, and reads all tokens of a thread at once in both
// layouts. This pays if the rows of a block together use X several times.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value, bool kTokenMajor, int kTokenLanes, int kTokens, int kThreads>
struct SharedInput {
  SPARSMITH_ROLE(prolog)
  SPARSMITH_TUNE(kTokenLanes, 1, 2, 4, 8, 16, 32)
  SPARSMITH_TUNE(kTokens, 1, 2, 4, 8)

  static constexpr int kTile = kTokenLanes * kTokens;

  // Bytes of the panel, rounded up to a vector.
  static SPARSMITH_DEVICE int shared_bytes(int cols) {
    return (cols * kTile * static_cast<int>(sizeof(Value)) + 15) / 16 * 16;
  }

  const Value* x;
  i64 ldx;
  int cols;
  Value* panel;
  int first_token = 0;  // of this thread
  int valid = 0;        // how many of its tokens exist
  int offset = 0;       // of this thread's tokens in a panel row

  SPARSMITH_DEVICE SharedInput(const Value* x_, i64 ldx_, int cols_, u8* shared)
      : x(x_), ldx(ldx_), cols(cols_), panel(reinterpret_cast<Value*>(shared)) {}

  // Fills the panel with the token tile that begins at `tile_first`; tokens from n on become 0. Every thread of the
  // block calls it. It ends with a barrier.
  SPARSMITH_DEVICE void begin_tile(int tile_first, int token_lane, int n) {
    first_token = tile_first + token_lane * kTokens;
    valid = n - first_token;
    offset = token_lane * kTokens;
    block_barrier();  // nobody reads the last tile's panel any more
    if constexpr (kTokenMajor) {
      stage_token_major(tile_first, n);
    } else {
      stage_feature_major(tile_first, n);
    }
    block_barrier();
  }

  SPARSMITH_DEVICE void load(u32 column, float (&out)[kTokens]) const {
    const auto vector =
        *reinterpret_cast<const Vector<Value, kTokens>*>(panel + static_cast<int>(column) * kTile + offset);
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) out[t] = to_float(vector[t]);
  }

 private:
  // Neighbouring threads read neighbouring columns. For one token, this is a plain copy. For more tokens, a thread
  // takes kColumns columns of kChunk tokens, turns them in its registers, and writes a column's tokens as one vector.
  SPARSMITH_DEVICE void stage_token_major(int tile_first, int n) {
    constexpr int kColumns = (kTile == 1 ? 16 : 4) / static_cast<int>(sizeof(Value));
    constexpr int kWide = 16 / static_cast<int>(sizeof(Value));
    constexpr int kChunk = kTile < kWide ? kTile : kWide;
    const u64 misaligned =
        (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % (kColumns * sizeof(Value));
    const int vectors = misaligned == 0 ? cols / kColumns : 0;
    for (int t = 0; t < kTile; t += kChunk) {
      const Value* from = x + static_cast<i64>(tile_first + t) * ldx;
      for (int v = thread_index(); v < vectors; v += kThreads) {
        Vector<Value, kColumns> columns[kChunk] = {};
        SPARSMITH_UNROLL for (int i = 0; i < kChunk; ++i) {
          if (tile_first + t + i < n) {
            columns[i] = load_coherent(reinterpret_cast<const Vector<Value, kColumns>*>(from + i * ldx) + v);
          }
        }
        if constexpr (kTile == 1) {
          *reinterpret_cast<Vector<Value, kColumns>*>(panel + v * kColumns) = columns[0];
        } else {
          SPARSMITH_UNROLL for (int c = 0; c < kColumns; ++c) {
            Vector<Value, kChunk> tokens;
            SPARSMITH_UNROLL for (int i = 0; i < kChunk; ++i) tokens[i] = columns[i][c];
            *reinterpret_cast<Vector<Value, kChunk>*>(panel + (v * kColumns + c) * kTile + t) = tokens;
          }
        }
      }
      for (int k = vectors * kColumns + thread_index(); k < cols; k += kThreads) {
        Vector<Value, kChunk> tokens = {};
        SPARSMITH_UNROLL for (int i = 0; i < kChunk; ++i) {
          if (tile_first + t + i < n) tokens[i] = load_coherent(from + i * ldx + k);
        }
        *reinterpret_cast<Vector<Value, kChunk>*>(panel + k * kTile + t) = tokens;
      }
    }
  }

  // Neighbouring threads read neighbouring tokens of a column, as vectors of a panel row if X is aligned.
  SPARSMITH_DEVICE void stage_feature_major(int tile_first, int n) {
    constexpr int kWide = 16 / static_cast<int>(sizeof(Value));
    constexpr int kVector = kTile < kWide ? kTile : kWide;
    constexpr int kVectorsPerRow = kTile / kVector;
    const u64 misaligned =
        (reinterpret_cast<u64>(x) | static_cast<u64>(ldx) * sizeof(Value)) % (kVector * sizeof(Value));
    const bool aligned = misaligned == 0;
    for (int i = thread_index(); i < cols * kVectorsPerRow; i += kThreads) {
      const int k = i / kVectorsPerRow;
      const int t = i % kVectorsPerRow * kVector;
      const Value* from = x + static_cast<i64>(k) * ldx + tile_first + t;
      Vector<Value, kVector> vector = {};
      if (aligned && tile_first + t + kVector <= n) {
        vector = load_coherent(reinterpret_cast<const Vector<Value, kVector>*>(from));
      } else {
        SPARSMITH_UNROLL for (int e = 0; e < kVector; ++e) {
          if (tile_first + t + e < n) vector[e] = load_coherent(from + e);
        }
      }
      *reinterpret_cast<Vector<Value, kVector>*>(panel + k * kTile + t) = vector;
    }
  }
};

}  // namespace sparsmith
