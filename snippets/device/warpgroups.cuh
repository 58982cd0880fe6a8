// Warpgroups: four neighbouring warps, the first of which is a multiple of four, and their tensor cores, wgmma. For
// kernels that are compiled for sm_90a alone (KernelText::architecture); all lanes of all four warps call.
#pragma once

#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/warpgroups.h"
#else

namespace sparsmith {

constexpr int kWarpgroupThreads = 128;

// Orders what the threads of a warpgroup did before it in front of what they do behind it. `warpgroup`: its number in
// the block, up to 7.
SPARSMITH_DEVICE void warpgroup_barrier(int warpgroup) {
  asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
}
// The same barrier; whether `value` holds for all threads.
SPARSMITH_DEVICE bool warpgroup_all(int warpgroup, bool value) {
  u32 all;
  asm volatile(
      "{\n\t.reg .pred p, q;\n\tsetp.ne.u32 p, %2, 0;\n\tbar.red.and.pred q, %1, 128, p;\n\tselp.u32 %0, 1, 0, "
      "q;\n\t}"
      : "=r"(all)
      : "r"(warpgroup + 1), "r"(static_cast<u32>(value))
      : "memory");
  return all != 0;
}
// What this thread wrote to shared memory is seen by multiplications behind the next barrier.
SPARSMITH_DEVICE void tensor_reads_follow() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Moves registers between the warpgroups of a block: from here on, each thread of the calling one has kCount, a
// multiple of 8. take_registers() waits until other warpgroups have given enough.
template <int kCount>
SPARSMITH_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
SPARSMITH_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Multiplications run asynchronously, between begin and commit they are started; until the wait is over nobody may
// touch their sums, their operands in registers, or write what they read in shared memory.
SPARSMITH_DEVICE void warpgroup_multiply_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
SPARSMITH_DEVICE void warpgroup_multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// For this warp's part of what was committed, but for the last kInFlight times: others may still be read for.
template <int kInFlight = 0>
SPARSMITH_DEVICE void warpgroup_multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kInFlight) : "memory");
}

// An operand in shared memory whose rows of 128 bytes lie one behind the other, 16-byte chunk h of row r at
// h ^ (r % 8), from a multiple of 1,024 on; or rows of 64 bytes, at h ^ (r / 2 % 4), from a multiple of 512 on: the
// lower half of its descriptor, which is kept apart so that moving it is one addition.
struct SwizzledRows {
  u32 descriptor;
};
SPARSMITH_DEVICE SwizzledRows swizzled_rows(u32 shared_offset) { return {(shared_offset >> 4 & 0x3FFFU) | 1U << 16}; }
// By 32, 64, 96 bytes for columns further on; by a multiple of 1,024 to other rows.
SPARSMITH_DEVICE SwizzledRows advanced(SwizzledRows from, u32 bytes) { return {from.descriptor + bytes / 16}; }

// An operand of two boxes whose rows of 64 bytes lie likewise, the second one `distance` bytes behind the first.
struct SwizzledPair {
  u32 descriptor;
};
SPARSMITH_DEVICE SwizzledPair swizzled_pair(u32 shared_offset, u32 distance) {
  return {(shared_offset >> 4 & 0x3FFFU) | distance / 16 << 16};
}
SPARSMITH_DEVICE SwizzledPair advanced(SwizzledPair from, u32 bytes) { return {from.descriptor + bytes / 16}; }

// Sums begin with 0, which the compiler does not know: it might set them between products, and wait for each.
template <int kCount>
SPARSMITH_DEVICE void begin_sums(float (&d)[kCount]) {
  SPARSMITH_UNROLL for (int i = 0; i < kCount; ++i) {
    d[i] = 0.0F;
    asm volatile("" : "+f"(d[i]));
  }
}

// The upper half of a descriptor: bytes of eight rows, and the swizzle.
template <int kLineBytes>
constexpr u64 kRowsOfLines = u64{kLineBytes / 2} << 32 | u64{kLineBytes == 128 ? 1 : 2} << 62;

// d += a b with a 64 x 16, b 16 x kColumns and d 64 x kColumns. a: as the fragments of mma.m16n8k16, warp w of the
// warpgroup those of rows 16 w and on. b: transposed in shared memory, 16 neighbouring elements in each of kColumns
// rows. d[4 j + i]: what mma.m16n8k16 has at d[i], of columns
// 8 j and on.
template <class T, int kColumns>
struct WarpgroupMultiply;
#define SPARSMITH_TEXT_0_31                                                \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SPARSMITH_TEXT_32_63                                                         \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SPARSMITH_TEXT_64_95                                                         \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SPARSMITH_TEXT_64_127                                                                    \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SPARSMITH_SUMS_8(i)                                                                             \
  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), \
      "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define SPARSMITH_SUMS_32(i) \
  SPARSMITH_SUMS_8(i), SPARSMITH_SUMS_8((i) + 8), SPARSMITH_SUMS_8((i) + 16), SPARSMITH_SUMS_8((i) + 24)
// `rest`: the operands behind the sums. The last three numbers: neither scaled nor turned.
#define SPARSMITH_WARPGROUP_MULTIPLY(Type, type, columns, texts, rest, ...)                                    \
  template <>                                                                                                  \
  struct WarpgroupMultiply<Type, columns> {                                                                    \
    static SPARSMITH_DEVICE void add(float (&d)[columns / 2], const u32 (&a)[4], SwizzledRows b) {             \
      const u64 rows = b.descriptor | kRowsOfLines<128>;                                                       \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" texts "}, " rest \
                   ", 1, 1, 1, 0;"                                                                             \
                   : __VA_ARGS__                                                                               \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows));                                   \
    }                                                                                                          \
  };
#define SPARSMITH_WARPGROUP_MULTIPLIES(Type, type)                                                                     \
  SPARSMITH_WARPGROUP_MULTIPLY(Type, type, 64, SPARSMITH_TEXT_0_31, "{%32, %33, %34, %35}, %36", SPARSMITH_SUMS_32(0)) \
  SPARSMITH_WARPGROUP_MULTIPLY(Type, type, 128, SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63,                         \
                               "{%64, %65, %66, %67}, %68", SPARSMITH_SUMS_32(0), SPARSMITH_SUMS_32(32))               \
  SPARSMITH_WARPGROUP_MULTIPLY(Type, type, 256,                                                                        \
                               SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63 ", " SPARSMITH_TEXT_64_127,               \
                               "{%128, %129, %130, %131}, %132", SPARSMITH_SUMS_32(0), SPARSMITH_SUMS_32(32),          \
                               SPARSMITH_SUMS_32(64), SPARSMITH_SUMS_32(96))
SPARSMITH_WARPGROUP_MULTIPLIES(half, "f16")
SPARSMITH_WARPGROUP_MULTIPLIES(bfloat16, "bf16")
#undef SPARSMITH_WARPGROUP_MULTIPLIES
#undef SPARSMITH_WARPGROUP_MULTIPLY

// The same with a 64 x 32 of which each aligned group of four columns has at most two elements, b 32 x kColumns. a and
// metadata: as for SparseTensorMultiply, warp w of the warpgroup those of rows 16 w and on.
template <class T, int kColumns>
struct SparseWarpgroupMultiply;
#define SPARSMITH_SPARSE_WARPGROUP_MULTIPLY(Type, type, columns, texts, rest, ...)                                \
  template <>                                                                                                     \
  struct SparseWarpgroupMultiply<Type, columns> {                                                                 \
    template <int kPair>                                                                                          \
    static SPARSMITH_DEVICE void add(float (&d)[columns / 2], const u32 (&a)[4], u32 metadata, SwizzledRows b) {  \
      const u64 rows = b.descriptor | kRowsOfLines<128>;                                                          \
      asm volatile("wgmma.mma_async.sp.sync.aligned.m64n" #columns "k32.f32." type "." type " {" texts "}, " rest \
                   ", 1, 1, 1, 0;"                                                                                \
                   : __VA_ARGS__                                                                                  \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(metadata), "n"(kPair));           \
    }                                                                                                             \
  };
#define SPARSMITH_SPARSE_WARPGROUP_MULTIPLIES(Type, type)                                                         \
  SPARSMITH_SPARSE_WARPGROUP_MULTIPLY(Type, type, 64, SPARSMITH_TEXT_0_31, "{%32, %33, %34, %35}, %36, %37, %38", \
                                      SPARSMITH_SUMS_32(0))                                                       \
  SPARSMITH_SPARSE_WARPGROUP_MULTIPLY(Type, type, 128, SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63,             \
                                      "{%64, %65, %66, %67}, %68, %69, %70", SPARSMITH_SUMS_32(0),                \
                                      SPARSMITH_SUMS_32(32))                                                      \
  SPARSMITH_SPARSE_WARPGROUP_MULTIPLY(Type, type, 256,                                                            \
                                      SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63 ", " SPARSMITH_TEXT_64_127,   \
                                      "{%128, %129, %130, %131}, %132, %133, %134", SPARSMITH_SUMS_32(0),         \
                                      SPARSMITH_SUMS_32(32), SPARSMITH_SUMS_32(64), SPARSMITH_SUMS_32(96))
SPARSMITH_SPARSE_WARPGROUP_MULTIPLIES(half, "f16")
SPARSMITH_SPARSE_WARPGROUP_MULTIPLIES(bfloat16, "bf16")
#undef SPARSMITH_SPARSE_WARPGROUP_MULTIPLIES
#undef SPARSMITH_SPARSE_WARPGROUP_MULTIPLY

// The same with a in shared memory too: 64 rows of 16 neighbouring elements. d: warp w of the warpgroup has rows 16 w
// and on. kLineBytes: of the rows of a and b, 64 or 128.
template <class T, int kColumns>
struct SharedMultiply;
#define SPARSMITH_TEXT_0_3 "%0, %1, %2, %3"
#define SPARSMITH_TEXT_0_7 SPARSMITH_TEXT_0_3 ", %4, %5, %6, %7"
#define SPARSMITH_TEXT_0_15 SPARSMITH_TEXT_0_7 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define SPARSMITH_SUMS_4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define SPARSMITH_SHARED_MULTIPLY(Type, type, columns, texts, rest, ...)                                       \
  template <>                                                                                                  \
  struct SharedMultiply<Type, columns> {                                                                       \
    template <int kLineBytes = 128>                                                                            \
    static SPARSMITH_DEVICE void add(float (&d)[columns / 2], SwizzledRows a, SwizzledRows b) {                \
      const u64 rows = a.descriptor | kRowsOfLines<kLineBytes>;                                                \
      const u64 others = b.descriptor | kRowsOfLines<kLineBytes>;                                              \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" texts "}, " rest \
                   ", 1, 1, 1, 0, 0;"                                                                          \
                   : __VA_ARGS__                                                                               \
                   : "l"(rows), "l"(others));                                                                  \
    }                                                                                                          \
  };
#define SPARSMITH_SHARED_MULTIPLIES(Type, type)                                                                        \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 8, SPARSMITH_TEXT_0_3, "%4, %5", SPARSMITH_SUMS_4(0))                          \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 16, SPARSMITH_TEXT_0_7, "%8, %9", SPARSMITH_SUMS_8(0))                         \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 32, SPARSMITH_TEXT_0_15, "%16, %17", SPARSMITH_SUMS_8(0), SPARSMITH_SUMS_8(8)) \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 64, SPARSMITH_TEXT_0_31, "%32, %33", SPARSMITH_SUMS_32(0))                     \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 128, SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63, "%64, %65",                \
                            SPARSMITH_SUMS_32(0), SPARSMITH_SUMS_32(32))                                               \
  SPARSMITH_SHARED_MULTIPLY(Type, type, 256, SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63 ", " SPARSMITH_TEXT_64_127, \
                            "%128, %129", SPARSMITH_SUMS_32(0), SPARSMITH_SUMS_32(32), SPARSMITH_SUMS_32(64),          \
                            SPARSMITH_SUMS_32(96))
SPARSMITH_SHARED_MULTIPLIES(half, "f16")
SPARSMITH_SHARED_MULTIPLIES(bfloat16, "bf16")
#undef SPARSMITH_SHARED_MULTIPLIES
#undef SPARSMITH_SHARED_MULTIPLY

// The same with both operands turned: 16 lines, one for each of the elements that meet. a: lines of 64 rows. b: boxes
// of lines of kLineBytes, whose columns are neighbours; from a box to the next one kBoxBytes. Both begin at a multiple
// of eight lines.
template <class T, int kColumns>
struct TurnedMultiply;
#define SPARSMITH_TURNED_MULTIPLY(Type, type, columns, texts, rest, ...)                                       \
  template <>                                                                                                  \
  struct TurnedMultiply<Type, columns> {                                                                       \
    template <int kLineBytes, int kBoxBytes>                                                                   \
    static SPARSMITH_DEVICE void add(float (&d)[columns / 2], SwizzledRows a, SwizzledRows b) {                \
      constexpr u64 kBoxes = kRowsOfLines<kLineBytes> + (u64{kBoxBytes / 16 - 1} << 16);                       \
      const u64 rows = a.descriptor | kRowsOfLines<128>;                                                       \
      const u64 others = b.descriptor + kBoxes;                                                                \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" texts "}, " rest \
                   ", 1, 1, 1, 1, 1;"                                                                          \
                   : __VA_ARGS__                                                                               \
                   : "l"(rows), "l"(others));                                                                  \
    }                                                                                                          \
  };
#define SPARSMITH_TURNED_MULTIPLIES(Type, type)                                                                        \
  SPARSMITH_TURNED_MULTIPLY(Type, type, 64, SPARSMITH_TEXT_0_31, "%32, %33", SPARSMITH_SUMS_32(0))                     \
  SPARSMITH_TURNED_MULTIPLY(Type, type, 128, SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63, "%64, %65",                \
                            SPARSMITH_SUMS_32(0), SPARSMITH_SUMS_32(32))                                               \
  SPARSMITH_TURNED_MULTIPLY(Type, type, 192, SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63 ", " SPARSMITH_TEXT_64_95,  \
                            "%96, %97", SPARSMITH_SUMS_32(0), SPARSMITH_SUMS_32(32), SPARSMITH_SUMS_32(64))            \
  SPARSMITH_TURNED_MULTIPLY(Type, type, 256, SPARSMITH_TEXT_0_31 ", " SPARSMITH_TEXT_32_63 ", " SPARSMITH_TEXT_64_127, \
                            "%128, %129", SPARSMITH_SUMS_32(0), SPARSMITH_SUMS_32(32), SPARSMITH_SUMS_32(64),          \
                            SPARSMITH_SUMS_32(96))
SPARSMITH_TURNED_MULTIPLIES(half, "f16")
SPARSMITH_TURNED_MULTIPLIES(bfloat16, "bf16")
#undef SPARSMITH_TURNED_MULTIPLIES

// The same for 32 columns: a: two boxes of lines of 32 rows. b: half of lines of 64 columns, from byte 0 or 64 of eight
// lines on.
template <class T>
struct PairMultiply;
#define SPARSMITH_PAIR_MULTIPLY(Type, type)                                                             \
  template <>                                                                                           \
  struct PairMultiply<Type> {                                                                           \
    static SPARSMITH_DEVICE void add(float (&d)[16], SwizzledPair a, SwizzledRows b) {                  \
      const u64 rows = a.descriptor | kRowsOfLines<64>;                                                 \
      const u64 others = b.descriptor | kRowsOfLines<128>;                                              \
      asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type " {" SPARSMITH_TEXT_0_15 \
                   "}, %16, %17, 1, 1, 1, 1, 1;"                                                        \
                   : SPARSMITH_SUMS_8(0), SPARSMITH_SUMS_8(8)                                           \
                   : "l"(rows), "l"(others));                                                           \
    }                                                                                                   \
  };
SPARSMITH_PAIR_MULTIPLY(half, "f16")
SPARSMITH_PAIR_MULTIPLY(bfloat16, "bf16")
#undef SPARSMITH_PAIR_MULTIPLY
#undef SPARSMITH_TURNED_MULTIPLY
#undef SPARSMITH_TEXT_64_95
#undef SPARSMITH_SUMS_4
#undef SPARSMITH_TEXT_0_15
#undef SPARSMITH_TEXT_0_7
#undef SPARSMITH_TEXT_0_3
#undef SPARSMITH_SUMS_32
#undef SPARSMITH_SUMS_8
#undef SPARSMITH_TEXT_64_127
#undef SPARSMITH_TEXT_32_63
#undef SPARSMITH_TEXT_0_31

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
