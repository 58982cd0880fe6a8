// Where a thread is in its block and grid, barriers of a block and of a warp, and shuffles.
#pragma once

#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/threads.h"
#else

namespace sparsmith {

// ---- where a thread is ----

SPARSMITH_DEVICE int thread_index() {
  const u32 index = threadIdx.x;
  __builtin_assume(index < 1024);  // spares divisions the case of a negative one
  return static_cast<int>(index);
}
// Of this thread's warp in the block, in a way that the compiler knows to be the same for all lanes. All of them call.
SPARSMITH_DEVICE int warp_index() { return static_cast<int>(__shfl_sync(0xFFFFFFFFU, threadIdx.x / 32, 0)); }
SPARSMITH_DEVICE int lane_index() { return static_cast<int>(threadIdx.x) % 32; }
SPARSMITH_DEVICE int block_index_x() { return static_cast<int>(blockIdx.x); }
SPARSMITH_DEVICE int block_index_y() { return static_cast<int>(blockIdx.y); }
SPARSMITH_DEVICE int block_index_z() { return static_cast<int>(blockIdx.z); }
SPARSMITH_DEVICE int grid_size_x() { return static_cast<int>(gridDim.x); }
SPARSMITH_DEVICE int grid_size_y() { return static_cast<int>(gridDim.y); }

// ---- barriers and shuffles: every live thread of the block, or every lane of the mask, must arrive ----

SPARSMITH_DEVICE void block_barrier() { __syncthreads(); }
SPARSMITH_DEVICE void warp_barrier(u32 mask = 0xFFFFFFFFU) { __syncwarp(mask); }
SPARSMITH_DEVICE float shuffle_xor(float value, int lane_mask, u32 mask = 0xFFFFFFFFU) {
  return __shfl_xor_sync(mask, value, lane_mask);
}
SPARSMITH_DEVICE u32 shuffle_xor_word(u32 value, int lane_mask, u32 mask = 0xFFFFFFFFU) {
  return __shfl_xor_sync(mask, value, lane_mask);
}
// value + that of lane - delta, or the own value before the warp's start.
SPARSMITH_DEVICE u32 add_shuffled_up(u32 value, int delta) {
  asm volatile(
      "{\n\t.reg .pred p;\n\t.reg .b32 t;\n\tshfl.sync.up.b32 t|p, %0, %1, 0, 0xffffffff;\n\t@p add.u32 %0, %0, t;\n\t}"
      : "+r"(value)
      : "r"(delta));
  return value;
}
SPARSMITH_DEVICE bool warp_any(bool value, u32 mask = 0xFFFFFFFFU) { return __any_sync(mask, value) != 0; }
SPARSMITH_DEVICE u32 shuffle_index(u32 value, int lane, u32 mask = 0xFFFFFFFFU) {
  return __shfl_sync(mask, value, lane);
}

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
