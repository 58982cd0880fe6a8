// Twin of snippets/device/threads.cuh.
#pragma once

#include "emulator/device_twin/types.h"

namespace sparsmith {

extern int thread_index() SPARSMITH_EMULATED(thread_index) __attribute__((const));
extern int block_index(int axis) SPARSMITH_EMULATED(block_index) __attribute__((const));
extern int grid_size(int axis) SPARSMITH_EMULATED(grid_size) __attribute__((const));
extern void block_barrier(int line = __builtin_LINE()) SPARSMITH_EMULATED(block_barrier);
extern void warp_barrier(u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) SPARSMITH_EMULATED(warp_barrier);
// kind 0: from lane ^ argument; 1: from lane `argument`; 2: from lane - argument, or the own value before the warp's
// start; 3: 1 where any lane brought other than 0, else 0.
extern u64 shuffle(int kind, u64 value, int argument, u32 mask, int line) SPARSMITH_EMULATED(shuffle);

SPARSMITH_DEVICE int warp_index() { return thread_index() / 32; }
SPARSMITH_DEVICE int lane_index() { return thread_index() % 32; }
SPARSMITH_DEVICE int block_index_x() { return block_index(0); }
SPARSMITH_DEVICE int block_index_y() { return block_index(1); }
SPARSMITH_DEVICE int block_index_z() { return block_index(2); }
SPARSMITH_DEVICE int grid_size_x() { return grid_size(0); }
SPARSMITH_DEVICE int grid_size_y() { return grid_size(1); }

SPARSMITH_DEVICE float shuffle_xor(float value, int lane_mask, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  const u32 bits = __builtin_bit_cast(u32, value);
  return __builtin_bit_cast(float, static_cast<u32>(shuffle(0, bits, lane_mask, mask, line)));
}
SPARSMITH_DEVICE u32 shuffle_xor_word(u32 value, int lane_mask, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return static_cast<u32>(shuffle(0, value, lane_mask, mask, line));
}
SPARSMITH_DEVICE u32 shuffle_up(u32 value, int delta, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return static_cast<u32>(shuffle(2, value, delta, mask, line));
}
SPARSMITH_DEVICE u32 add_shuffled_up(u32 value, int delta, int line = __builtin_LINE()) {
  const u32 before = shuffle_up(value, delta, 0xFFFFFFFFU, line);
  return thread_index() % 32 >= delta ? value + before : value;
}
SPARSMITH_DEVICE bool warp_any(bool value, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return shuffle(3, value ? 1 : 0, 0, mask, line) != 0;
}
SPARSMITH_DEVICE u32 shuffle_index(u32 value, int lane, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return static_cast<u32>(shuffle(1, value, lane, mask, line));
}

}  // namespace sparsmith
