// Twin of snippets/device/warpgroups.cuh.
#pragma once

#include "emulator/device_twin/types.h"

extern "C" {
void sparsmith_emulator_warpgroup_barrier(int warpgroup, int line);
void sparsmith_emulator_tensor_reads_follow();
void sparsmith_emulator_warpgroup_begin();
// wgmma.m64n<columns>k16: a: 4 words of the calling lane, or null: it lies at a_at; d: columns / 2 floats of the
// calling lane. All 32 lanes of each of four warps.
void sparsmith_emulator_warpgroup_multiply(float* d, const unsigned* a, unsigned a_at, unsigned b_at, int columns,
                                           bool bfloat16, int line);
void sparsmith_emulator_warpgroup_commit();
void sparsmith_emulator_warpgroup_wait(int in_flight, int line);
}

namespace sparsmith {

constexpr int kWarpgroupThreads = 128;
SPARSMITH_DEVICE void warpgroup_barrier(int warpgroup, int line = __builtin_LINE()) {
  sparsmith_emulator_warpgroup_barrier(warpgroup, line);
}
SPARSMITH_DEVICE void tensor_reads_follow() { sparsmith_emulator_tensor_reads_follow(); }
SPARSMITH_DEVICE void warpgroup_multiply_begin() { sparsmith_emulator_warpgroup_begin(); }
SPARSMITH_DEVICE void warpgroup_multiply_commit() { sparsmith_emulator_warpgroup_commit(); }
template <int kInFlight = 0>
SPARSMITH_DEVICE void warpgroup_multiply_wait(int line = __builtin_LINE()) {
  sparsmith_emulator_warpgroup_wait(kInFlight, line);
}
// Here the operand is its place.
struct SwizzledRows {
  u32 at;
};
SPARSMITH_DEVICE SwizzledRows swizzled_rows(u32 shared_offset) { return {shared_offset}; }
SPARSMITH_DEVICE SwizzledRows advanced(SwizzledRows from, u32 bytes) { return {from.at + bytes}; }
template <class T, int kColumns>
struct WarpgroupMultiply {
  static SPARSMITH_DEVICE void add(float (&d)[kColumns / 2], const u32 (&a)[4], SwizzledRows b,
                                   int line = __builtin_LINE()) {
    sparsmith_emulator_warpgroup_multiply(d, a, 0, b.at, kColumns, is_bfloat16<T>, line);
  }
};
template <class T, int kColumns>
struct SharedMultiply {
  static SPARSMITH_DEVICE void add(float (&d)[kColumns / 2], SwizzledRows a, SwizzledRows b,
                                   int line = __builtin_LINE()) {
    sparsmith_emulator_warpgroup_multiply(d, nullptr, a.at, b.at, kColumns, is_bfloat16<T>, line);
  }
};

}  // namespace sparsmith
