// Tensor cores of a warp, mma and mma.sp, and their operands from shared memory. Every lane of the warp calls.
#pragma once

#include "snippets/device/shared_memory.cuh"
#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/tensor_cores.h"
#else

namespace sparsmith {

// Four 8 x 8 matrices of 16-bit elements from shared memory: lane 8 j + r gives the shared_offset() of row r of matrix
// j (16 bytes, aligned to them); lane l gets elements [l / 4][2 (l % 4)] and [l / 4][2 (l % 4) + 1] of matrix j in the
// low and the high half of out[j].
SPARSMITH_DEVICE void load_matrices(u32 row_at, u32 (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(row_at)
               : "memory");
}

// Four 8 x 8 matrices of 16-bit elements from shared memory, transposed: lane 8 j + r gives the address of row r of
// matrix j (16 bytes, aligned to them); lane l gets elements [2 (l % 4)][l / 4] and [2 (l % 4) + 1][l / 4] of matrix j
// in the low and the high half of out[j].
SPARSMITH_DEVICE void load_matrices_transposed(SharedAddress row, u32 (&out)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(row.at)
               : "memory");
}

// The way back: lane l gives elements [2 (l % 4)][l / 4] and [2 (l % 4) + 1][l / 4] of matrix j in the low and the high
// half of in[j], and lane 8 j + r the shared_offset() of row r of matrix j.
SPARSMITH_DEVICE void store_matrices_transposed(u32 row_at, const u32 (&in)[4]) {
  SPARSMITH_ASM_SM_90("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_at),
                      "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3]) : "memory");
}

// d += a b with a 16 x 16, b 16 x 8 and d 16 x 8, in the fragments of mma.m16n8k16: lane l = 4 g + t holds
//   a[i], i = 0..3: row g + 8 (i % 2), columns 2 t + 8 (i / 2) and the next      b[i], i = 0, 1: rows 2 t + 8 i and the
//   next, column g      d[i], i = 0..3: row g + 8 (i / 2), column 2 t + i % 2
// Products are exact; sums are fp32, rounded towards zero.
template <class T>
struct TensorMultiply;
#define SPARSMITH_TENSOR_MULTIPLY(Type, type)                                            \
  template <>                                                                            \
  struct TensorMultiply<Type> {                                                          \
    static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { \
      asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                         \
          ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"         \
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                               \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));               \
    }                                                                                    \
  };
SPARSMITH_TENSOR_MULTIPLY(half, "f16")
SPARSMITH_TENSOR_MULTIPLY(bfloat16, "bf16")
#undef SPARSMITH_TENSOR_MULTIPLY

// The same with a 16 x 32 of which each aligned group of four columns has at most two elements, b 32 x 8: mma.sp. Of a
// the lane holds
//   a[i], i = 0..3: the two elements that row g + 8 (i % 2) has in group t + 4 (i / 2), of columns 4 u to 4 u + 3
//   b[i], i = 0..3: rows 2 t + 8 i and the next, column g
// Where in their groups the elements stand is in `metadata`, which lanes 2 kPair + h of each quad bring, h = 0, 1: bits
// 4 u and on of row g and bits 16 + 4 u and on of row g + 8 are group u + 4 h, u = 0..3, two bits an element; the
// first is less than the second. Elements of b that are not named so are not multiplied.
template <class T>
struct SparseTensorMultiply;
#define SPARSMITH_SPARSE_MULTIPLY(Type, type)                                                                      \
  template <>                                                                                                      \
  struct SparseTensorMultiply<Type> {                                                                              \
    template <int kPair>                                                                                           \
    static SPARSMITH_DEVICE void add(float (&d)[4], const u32 (&a)[4], const u32 (&b)[4], u32 metadata) {          \
      asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32." type "." type                              \
          ".f32 {%0, %1, %2, %3}, "                                                                                \
          "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"                                      \
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                         \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata), \
            "n"(kPair));                                                                                           \
    }                                                                                                              \
  };
SPARSMITH_SPARSE_MULTIPLY(half, "f16")
SPARSMITH_SPARSE_MULTIPLY(bfloat16, "bf16")
#undef SPARSMITH_SPARSE_MULTIPLY

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
