// Twin of snippets/device/global_memory.cuh.
#pragma once

#include "emulator/device_twin/types.h"

namespace sparsmith {

// One load of sizeof(T) bytes, as the hardware does it: aligned to its size (at most 16).
template <class T>
SPARSMITH_DEVICE T load_aligned(const T* from, int line) {
  constexpr u64 kPart = sizeof(T) > 16 ? 16 : sizeof(T);
  static_assert(sizeof(T) == kPart || sizeof(T) == 32, "a load is 2, 4, 8, 16 or 32 bytes");
  static_assert((kPart & (kPart - 1)) == 0 && kPart > 1, "a load is 2, 4, 8, 16 or 32 bytes");
  // Volatile, so that the compiler does not conclude from T's alignment that the check is needless.
  const T* volatile opaque = from;
  if ((reinterpret_cast<u64>(opaque) & (kPart - 1)) != 0) misaligned(from, sizeof(T), line);
  T result;
  __builtin_memcpy(&result, from, kPart);
  if constexpr (sizeof(T) == 32) {
    __builtin_memcpy(reinterpret_cast<u8*>(&result) + 16, reinterpret_cast<const u8*>(from) + 16, 16);
  }
  return result;
}
template <class T>
SPARSMITH_DEVICE T load_streaming(const T* from, int line = __builtin_LINE()) {
  return load_aligned(from, line);
}
template <class T>
SPARSMITH_DEVICE T load_cached(const T* from, int line = __builtin_LINE()) {
  return load_aligned(from, line);
}
template <class T>
SPARSMITH_DEVICE T load_coherent(const T* from, int line = __builtin_LINE()) {
  return load_aligned(from, line);
}
template <class T>
SPARSMITH_DEVICE T load_coherent_if(bool wanted, const T* from, int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 16, "one load of 16 bytes");
  return wanted ? load_aligned(from, line) : T{};
}

SPARSMITH_DEVICE u32 load_cached_byte(const u8* from) { return *from; }
SPARSMITH_DEVICE u32 load_streaming_word(const u16* from, int line = __builtin_LINE()) {
  return load_aligned(from, line);
}

SPARSMITH_DEVICE void prefetch(const void*) {}

template <class T>
SPARSMITH_DEVICE void store_whole(T* to, const T& value, int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 16, "one store of 16 bytes");
  T* volatile opaque = to;  // as in load_aligned()
  if (reinterpret_cast<u64>(opaque) % sizeof(T) != 0) misaligned(to, sizeof(T), line);
  *to = value;
}

extern void atomic_add(float* to, float value, int line = __builtin_LINE()) SPARSMITH_EMULATED(atomic_add_float);

}  // namespace sparsmith
