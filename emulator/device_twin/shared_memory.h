// Twin of snippets/device/shared_memory.cuh.
#pragma once

#include "emulator/device_twin/types.h"

namespace sparsmith {

extern u8* shared_memory() SPARSMITH_EMULATED(shared_memory) __attribute__((const));

// Here a number counts from the block's first byte.
SPARSMITH_DEVICE u32 shared_offset(const void* shared) {
  return static_cast<u32>(static_cast<const u8*>(shared) - shared_memory());
}
SPARSMITH_DEVICE void store_shared_low(u32 at, u32 word, int line = __builtin_LINE()) {
  u8* const to = shared_memory() + at;
  if ((reinterpret_cast<u64>(to) & 1U) != 0) misaligned(to, 2, line);
  *reinterpret_cast<u16*>(to) = static_cast<u16>(word);
}
SPARSMITH_DEVICE void store_shared_low_if(bool there, u32 at, u32 word, int line = __builtin_LINE()) {
  if (there) store_shared_low(at, word, line);
}
SPARSMITH_DEVICE void store_shared_high_if(bool there, u32 at, u32 word, int line = __builtin_LINE()) {
  if (there) store_shared_low(at, word >> 16, line);
}

struct SharedAddress {
  const u8* at;
};
SPARSMITH_DEVICE SharedAddress shared_address(const void* shared) { return {static_cast<const u8*>(shared)}; }
SPARSMITH_DEVICE SharedAddress advanced(SharedAddress from, u32 bytes) { return {from.at + bytes}; }

template <int kScale>
SPARSMITH_DEVICE SharedAddress advance_by_low_half(SharedAddress from, u32 word) {
  return {from.at + kScale * (word & 0xFFFFU)};
}
template <int kScale>
SPARSMITH_DEVICE SharedAddress advance_by_high_half(SharedAddress from, u32 word) {
  return {from.at + kScale * (word >> 16)};
}
template <class T>
SPARSMITH_DEVICE T load_shared(SharedAddress from) {
  return *reinterpret_cast<const T*>(from.at);
}

struct SharedCursor {
  const u16* at;
};
SPARSMITH_DEVICE SharedCursor shared_cursor(const void* shared) { return {static_cast<const u16*>(shared)}; }
SPARSMITH_DEVICE SharedCursor advanced(SharedCursor cursor, u32 bytes) { return {cursor.at + bytes / 2}; }
template <int kBit>
SPARSMITH_DEVICE u32 take_if(SharedCursor& cursor, u32 word) {
  return (word >> kBit & 1U) != 0 ? *cursor.at++ : 0;
}

}  // namespace sparsmith
