// Twin of snippets/device/warpgroups.cuh.
#pragma once

#include "emulator/device_twin/types.h"

namespace sparsmith {

constexpr int kWarpgroupThreads = 128;
extern void warpgroup_barrier(int warpgroup, int line = __builtin_LINE()) SPARSMITH_EMULATED(warpgroup_barrier);
extern bool warpgroup_all(int warpgroup, bool value, int line = __builtin_LINE()) SPARSMITH_EMULATED(warpgroup_all);
extern void tensor_reads_follow(int line = __builtin_LINE()) SPARSMITH_EMULATED(tensor_reads_follow);
extern void warpgroup_multiply_begin(int line = __builtin_LINE()) SPARSMITH_EMULATED(warpgroup_begin);
extern void warpgroup_multiply_commit(int line = __builtin_LINE()) SPARSMITH_EMULATED(warpgroup_commit);
extern void wait_for_products(int in_flight, int line) SPARSMITH_EMULATED(warpgroup_wait);
// wgmma.m64n<columns>k16: a: 4 words of the calling lane, or null: it lies at a_at; d: columns / 2 floats of the
// calling lane. All 32 lanes of each of four warps. pair: 0 or 1 for wgmma.sp with k32 and `metadata`, otherwise -1.
extern void warpgroup_multiply(float* d, const u32* a, u32 a_at, u32 b_at, int columns, int line_bytes, bool bfloat16,
                               u32 metadata, int pair, int line) SPARSMITH_EMULATED(warpgroup_multiply);
// The same with both operands turned, in shared memory: a of one box of lines of 128 bytes (a_box_bytes 0) or of two of
// lines of 64 bytes that are a_box_bytes apart, b of lines of line_bytes, whose boxes are box_bytes apart.
extern void warpgroup_multiply_turned(float* d, u32 a_at, u32 a_box_bytes, u32 b_at, int columns, int line_bytes,
                                      u32 box_bytes, bool bfloat16, int line)
    SPARSMITH_EMULATED(warpgroup_multiply_turned);
template <int kCount>
SPARSMITH_DEVICE void give_registers() {}
template <int kCount>
SPARSMITH_DEVICE void take_registers() {}
template <int kInFlight = 0>
SPARSMITH_DEVICE void warpgroup_multiply_wait(int line = __builtin_LINE()) {
  wait_for_products(kInFlight, line);
}
// Here the operand is its place.
struct SwizzledRows {
  u32 at;
};
SPARSMITH_DEVICE SwizzledRows swizzled_rows(u32 shared_offset) { return {shared_offset}; }
SPARSMITH_DEVICE SwizzledRows advanced(SwizzledRows from, u32 bytes) { return {from.at + bytes}; }
struct SwizzledPair {
  u32 words;  // chunks of 16 bytes: the place, the distance << 16
};
SPARSMITH_DEVICE SwizzledPair swizzled_pair(u32 shared_offset, u32 distance) {
  return {shared_offset / 16 | distance / 16 << 16};
}
SPARSMITH_DEVICE SwizzledPair advanced(SwizzledPair from, u32 bytes) { return {from.words + bytes / 16}; }
template <int kCount>
SPARSMITH_DEVICE void begin_sums(float (&d)[kCount]) {
  for (float& sum : d) sum = 0.0F;
}
template <class T, int kColumns>
struct WarpgroupMultiply {
  static SPARSMITH_DEVICE void add(float (&d)[kColumns / 2], const u32 (&a)[4], SwizzledRows b,
                                   int line = __builtin_LINE()) {
    warpgroup_multiply(d, a, 0, b.at, kColumns, 128, is_bfloat16<T>, 0, -1, line);
  }
};
template <class T, int kColumns>
struct SparseWarpgroupMultiply {
  template <int kPair>
  static SPARSMITH_DEVICE void add(float (&d)[kColumns / 2], const u32 (&a)[4], u32 metadata, SwizzledRows b,
                                   int line = __builtin_LINE()) {
    warpgroup_multiply(d, a, 0, b.at, kColumns, 128, is_bfloat16<T>, metadata, kPair, line);
  }
};
template <class T, int kColumns>
struct SharedMultiply {
  template <int kLineBytes = 128>
  static SPARSMITH_DEVICE void add(float (&d)[kColumns / 2], SwizzledRows a, SwizzledRows b,
                                   int line = __builtin_LINE()) {
    warpgroup_multiply(d, nullptr, a.at, b.at, kColumns, kLineBytes, is_bfloat16<T>, 0, -1, line);
  }
};
template <class T, int kColumns>
struct TurnedMultiply {
  template <int kLineBytes, int kBoxBytes>
  static SPARSMITH_DEVICE void add(float (&d)[kColumns / 2], SwizzledRows a, SwizzledRows b,
                                   int line = __builtin_LINE()) {
    warpgroup_multiply_turned(d, a.at, 0, b.at, kColumns, kLineBytes, kBoxBytes, is_bfloat16<T>, line);
  }
};
template <class T>
struct PairMultiply {
  static SPARSMITH_DEVICE void add(float (&d)[16], SwizzledPair a, SwizzledRows b, int line = __builtin_LINE()) {
    warpgroup_multiply_turned(d, a.words % 0x4000 * 16, a.words / 0x10000 * 16, b.at, 32, 128, 128, is_bfloat16<T>,
                              line);
  }
};

}  // namespace sparsmith
