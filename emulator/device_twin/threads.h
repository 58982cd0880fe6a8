// Twin of snippets/device/threads.cuh.
#pragma once

#include "emulator/device_twin/types.h"

extern "C" {
int sparsmith_emulator_thread_index() __attribute__((const));
int sparsmith_emulator_block_index(int axis) __attribute__((const));
int sparsmith_emulator_grid_size(int axis) __attribute__((const));
void sparsmith_emulator_block_barrier(int line);
void sparsmith_emulator_warp_barrier(unsigned mask, int line);
// kind 0: from lane ^ argument; 1: from lane + argument, or the own value past the warp's end; 2: from lane `argument`;
// 3: from lane - argument, or the own value before the warp's start; 4: 1 where any lane brought other than 0, else 0.
unsigned long long sparsmith_emulator_shuffle(int kind, unsigned long long value, int argument, unsigned mask,
                                              int line);
}

namespace sparsmith {

SPARSMITH_DEVICE int thread_index() { return sparsmith_emulator_thread_index(); }
SPARSMITH_DEVICE int warp_index() { return thread_index() / 32; }
SPARSMITH_DEVICE int lane_index() { return thread_index() % 32; }
SPARSMITH_DEVICE int block_index_x() { return sparsmith_emulator_block_index(0); }
SPARSMITH_DEVICE int block_index_y() { return sparsmith_emulator_block_index(1); }
SPARSMITH_DEVICE int block_index_z() { return sparsmith_emulator_block_index(2); }
SPARSMITH_DEVICE int grid_size_x() { return sparsmith_emulator_grid_size(0); }
SPARSMITH_DEVICE int grid_size_y() { return sparsmith_emulator_grid_size(1); }

SPARSMITH_DEVICE void block_barrier(int line = __builtin_LINE()) { sparsmith_emulator_block_barrier(line); }
SPARSMITH_DEVICE void warp_barrier(u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  sparsmith_emulator_warp_barrier(mask, line);
}
SPARSMITH_DEVICE float shuffle_xor(float value, int lane_mask, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  const u32 bits = __builtin_bit_cast(u32, value);
  return __builtin_bit_cast(float, static_cast<u32>(sparsmith_emulator_shuffle(0, bits, lane_mask, mask, line)));
}
SPARSMITH_DEVICE u32 shuffle_xor_word(u32 value, int lane_mask, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return static_cast<u32>(sparsmith_emulator_shuffle(0, value, lane_mask, mask, line));
}
SPARSMITH_DEVICE float shuffle_down(float value, int delta, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  const u32 bits = __builtin_bit_cast(u32, value);
  return __builtin_bit_cast(float, static_cast<u32>(sparsmith_emulator_shuffle(1, bits, delta, mask, line)));
}
SPARSMITH_DEVICE u32 shuffle_up(u32 value, int delta, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return static_cast<u32>(sparsmith_emulator_shuffle(3, value, delta, mask, line));
}
SPARSMITH_DEVICE u32 add_shuffled_up(u32 value, int delta, int line = __builtin_LINE()) {
  const u32 before = shuffle_up(value, delta, 0xFFFFFFFFU, line);
  return thread_index() % 32 >= delta ? value + before : value;
}
SPARSMITH_DEVICE bool warp_any(bool value, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return sparsmith_emulator_shuffle(4, value ? 1 : 0, 0, mask, line) != 0;
}
SPARSMITH_DEVICE u32 shuffle_index(u32 value, int lane, u32 mask = 0xFFFFFFFFU, int line = __builtin_LINE()) {
  return static_cast<u32>(sparsmith_emulator_shuffle(2, value, lane, mask, line));
}

}  // namespace sparsmith
