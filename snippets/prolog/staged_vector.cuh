// Stages kTokens tokens of X: the block copies each token into shared memory as a vector [K + 1], whose last element is
// 0, and gathers from there. Tokens beyond n repeat the last token.
//
// begin() starts the copy and wait() ends it. Between the two, a block has its weights in flight. An x that is
// contiguous and aligned to 16 bytes comes as one bulk copy that a single thread starts (if the device has bulk
// copies), otherwise by loads and stores of all threads. The vector begins at a multiple of 128 bytes: a bulk copy to a
// place that is aligned only to 16 is correct, but takes a microsecond longer for 16 KB.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value, int kTokens, int kThreads>
struct StagedVector {
  SPARSMITH_ROLE(prolog)

  static constexpr int kScale = static_cast<int>(sizeof(Value));  // offsets are in bytes
  static constexpr int kAlignment = 128;

  // Bytes of a token's vector.
  static SPARSMITH_DEVICE int vector_bytes(int cols) {
    return (cols * kScale + kScale + kAlignment - 1) / kAlignment * kAlignment;
  }
  static SPARSMITH_DEVICE int shared_bytes(int cols) { return kAlignment + kTokens * vector_bytes(cols); }

  const Value* x;
  i64 column_stride;
  i64 token_stride;
  int cols;
  BulkBarrier* barrier;
  u8* vectors;
  u32 phase = 0;
  bool bulk = false;

  SPARSMITH_DEVICE StagedVector(const Value* x_, i64 column_stride_, i64 token_stride_, int cols_, u8* shared)
      : x(x_),
        column_stride(column_stride_),
        token_stride(token_stride_),
        cols(cols_),
        barrier(reinterpret_cast<BulkBarrier*>(shared)),
        vectors(shared + kAlignment) {
    if (kBulkCopies && thread_index() == 0) bulk_barrier_init(barrier, kTokens);
  }

  // Turns to the tokens from `token` on, of `n`. Every thread of the block calls it. REQUIRES: no thread reads the
  // earlier tokens any more.
  SPARSMITH_DEVICE void begin(int token, int n) {
    constexpr int kPiece = 16 / static_cast<int>(sizeof(Value));
    const Value* from = x + token * token_stride;
    const u64 misaligned = reinterpret_cast<u64>(from) | (kTokens > 1 ? static_cast<u64>(token_stride) * kScale : 0);
    const int copied = column_stride == 1 && misaligned % 16 == 0 ? cols / kPiece * kPiece : 0;
    bulk = kBulkCopies && copied > 0;
    SPARSMITH_UNROLL for (int t = 0; t < kTokens; ++t) {
      stage(from, copied, vectors + t * vector_bytes(cols));
      if (token + t + 1 < n) from += token_stride;
    }
  }

  // Every thread of the block calls it; afterwards all may gather.
  SPARSMITH_DEVICE void wait() {
    block_barrier();
    if constexpr (kBulkCopies) {
      if (bulk) {
        bulk_wait(barrier, phase);
        phase ^= 1;
      }
    }
  }

  SPARSMITH_DEVICE float at(u32 offset, int t) const {
    return to_float(*reinterpret_cast<const Value*>(vectors + t * vector_bytes(cols) + offset));
  }

 private:
  // Copies the first `copied` elements, which are whole pieces, at once, and the others one by one.
  SPARSMITH_DEVICE void stage(const Value* from, int copied, u8* to) const {
    Value* vector = reinterpret_cast<Value*>(to);
    if constexpr (kBulkCopies) {
      if (bulk && thread_index() == 0) bulk_copy(vector, from, copied * kScale, barrier);
    } else {
      constexpr int kPiece = 16 / static_cast<int>(sizeof(Value));
      SPARSMITH_ROLLED for (int i = thread_index(); i < copied / kPiece; i += kThreads) {
        reinterpret_cast<Vector<Value, kPiece>*>(vector)[i] =
            load_coherent(reinterpret_cast<const Vector<Value, kPiece>*>(from) + i);
      }
    }
    SPARSMITH_ROLLED for (int i = copied + thread_index(); i < cols; i += kThreads) {
      vector[i] = load_coherent(from + i * column_stride);
    }
    if (thread_index() == kThreads - 1) vector[cols] = from_float<Value>(0.0F);
  }
};

}  // namespace sparsmith
