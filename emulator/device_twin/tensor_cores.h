// Twin of snippets/device/tensor_cores.cuh.
#pragma once

#include "emulator/device_twin/shared_memory.h"
#include "emulator/device_twin/threads.h"
#include "emulator/device_twin/types.h"

namespace sparsmith {

// mma.m16n8k16: a: 4 words, b: 2 words, d: 4 floats of the calling lane. All 32 lanes of a warp.
extern void multiply_matrices(float* d, const u32* a, const u32* b, bool bfloat16, int line)
    SPARSMITH_EMULATED(multiply_matrices);
// mma.sp.m16n8k32: a and b: 4 words, d: 4 floats of the calling lane. All 32 lanes of a warp.
extern void multiply_sparse_matrices(float* d, const u32* a, const u32* b, u32 metadata, int pair, bool bfloat16,
                                     int line) SPARSMITH_EMULATED(multiply_sparse_matrices);

SPARSMITH_DEVICE u64 shuffle_word(u64 value, int lane, int line) { return shuffle(1, value, lane, 0xFFFFFFFFU, line); }

SPARSMITH_DEVICE void load_matrices(u32 row_at, u32 (&out)[4], int line = __builtin_LINE()) {
  const u8* const row = shared_memory() + row_at;
  if ((reinterpret_cast<u64>(row) & 15U) != 0) misaligned(row, 16, line);
  const int lane = thread_index() % 32;
  for (int j = 0; j < 4; ++j) {
    const auto* from = reinterpret_cast<const u16*>(shuffle_word(reinterpret_cast<u64>(row), 8 * j + lane / 4, line));
    out[j] = from[lane % 4 * 2] | static_cast<u32>(from[lane % 4 * 2 + 1]) << 16;
  }
}

SPARSMITH_DEVICE void load_matrices_transposed(SharedAddress address, u32 (&out)[4], int line = __builtin_LINE()) {
  const u8* row = address.at;
  if ((reinterpret_cast<u64>(row) & 15U) != 0) misaligned(row, 16, line);
  const int lane = thread_index() % 32;
  for (int j = 0; j < 4; ++j) {
    const auto* even =
        reinterpret_cast<const u16*>(shuffle_word(reinterpret_cast<u64>(row), 8 * j + lane % 4 * 2, line));
    const auto* odd =
        reinterpret_cast<const u16*>(shuffle_word(reinterpret_cast<u64>(row), 8 * j + lane % 4 * 2 + 1, line));
    out[j] = even[lane / 4] | static_cast<u32>(odd[lane / 4]) << 16;
  }
}

SPARSMITH_DEVICE void store_matrices_transposed(u32 row_at, const u32 (&in)[4], int line = __builtin_LINE()) {
  u8* const row = shared_memory() + row_at;
  if ((reinterpret_cast<u64>(row) & 15U) != 0) misaligned(row, 16, line);
  const int lane = thread_index() % 32;
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 2; ++i) {
      auto* to = reinterpret_cast<u16*>(shuffle_word(reinterpret_cast<u64>(row), 8 * j + lane % 4 * 2 + i, line));
      to[lane / 4] = static_cast<u16>(in[j] >> (16 * i));
    }
  }
}

template <class T>
struct TensorMultiply {
  static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, int line = __builtin_LINE()) {
    const u32 b[2] = {b0, b1};
    multiply_matrices(d, a, b, is_bfloat16<T>, line);
  }
};

template <class T>
struct SparseTensorMultiply {
  template <int kPair>
  static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[4], u32 metadata,
                                   int line = __builtin_LINE()) {
    static_assert(kPair == 0 || kPair == 1, "a quad has two pairs of lanes");
    multiply_sparse_matrices(d, a, b, metadata, kPair, is_bfloat16<T>, line);
  }
};

}  // namespace sparsmith
