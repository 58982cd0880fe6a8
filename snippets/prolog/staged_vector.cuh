// One token of X, staged: the block copies it into shared memory as a vector [K + 1], whose last element is 0, and
// gathers from there.
//
// begin() starts the copy and wait() ends it; between the two a block has its weights on the way. An x that lies in one
// piece, aligned to 16 bytes, comes as one bulk copy that a single thread starts (where the device has them), else as
// loads and stores of all threads. The vector begins at a multiple of 128 bytes: a bulk copy to a place that is only
// aligned to 16 is correct, and takes a microsecond longer for 16 KB.
#pragma once

#include "snippets/contract.cuh"
#include "snippets/device.cuh"

namespace sparsmith {

template <class Value, int kThreads>
struct StagedVector {
  SPARSMITH_ROLE(prolog)

  static constexpr int kScale = static_cast<int>(sizeof(Value));  // offsets are in bytes
  static constexpr int kBarrierBytes = 128;                       // keeps the vector's alignment

  static SPARSMITH_DEVICE int shared_bytes(int cols) { return kBarrierBytes + (cols * kScale + kScale + 15) / 16 * 16; }

  const Value* x;
  i64 column_stride;
  i64 token_stride;
  int cols;
  BulkBarrier* barrier;
  Value* vector;
  u32 phase = 0;
  bool bulk = false;

  SPARSMITH_DEVICE StagedVector(const Value* x_, i64 column_stride_, i64 token_stride_, int cols_, u8* shared)
      : x(x_),
        column_stride(column_stride_),
        token_stride(token_stride_),
        cols(cols_),
        barrier(reinterpret_cast<BulkBarrier*>(shared)),
        vector(reinterpret_cast<Value*>(shared + kBarrierBytes)) {
    if (kBulkCopies && thread_index() == 0) bulk_barrier_init(barrier);
  }

  // Every thread of the block calls it, and nobody reads the token before any more.
  SPARSMITH_DEVICE void begin(int token) {
    constexpr int kPiece = 16 / static_cast<int>(sizeof(Value));
    const Value* from = x + token * token_stride;
    int copied = column_stride == 1 && reinterpret_cast<u64>(from) % 16 == 0 ? cols / kPiece * kPiece : 0;
    bulk = kBulkCopies && copied > 0;
    if constexpr (kBulkCopies) {
      if (bulk && thread_index() == 0) {
        bulk_copy(vector, from, copied * static_cast<int>(sizeof(Value)), barrier);
      }
    } else {
      SPARSMITH_ROLLED for (int i = thread_index(); i < copied / kPiece; i += kThreads) {
        reinterpret_cast<Vector<Value, kPiece>*>(vector)[i] =
            load_cached(reinterpret_cast<const Vector<Value, kPiece>*>(from) + i);
      }
    }
    SPARSMITH_ROLLED for (int i = copied + thread_index(); i < cols; i += kThreads) {
      vector[i] = load_cached(from + i * column_stride);
    }
    if (thread_index() == kThreads - 1) vector[cols] = from_float<Value>(0.0F);
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

  SPARSMITH_DEVICE float at(u32 offset) const {
    return to_float(*reinterpret_cast<const Value*>(reinterpret_cast<const u8*>(vector) + offset));
  }
};

}  // namespace sparsmith
