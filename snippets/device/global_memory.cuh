// Loads from global memory by who else will read it, stores to it, and additions that may meet.
#pragma once

#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/global_memory.h"
#else

namespace sparsmith {

// One access of kBytes. `to`: where it goes; then what that is. Every load is volatile: of other asm the compiler
// believes that it may run in vain, and moves it out of loops in front of the condition that keeps it inside of its
// array.
enum class LoadKind : u8 { kStreaming, kCached, kCoherent };
#define SPARSMITH_GLOBAL_LOAD(to, ...)                                               \
  template <LoadKind kKind>                                                          \
  static SPARSMITH_DEVICE GlobalLoad from(const void* address) {                     \
    GlobalLoad r;                                                                    \
    if constexpr (kKind == LoadKind::kStreaming) {                                   \
      asm volatile("ld.global.nc.L1::no_allocate." to : __VA_ARGS__ : "l"(address)); \
    } else if constexpr (kKind == LoadKind::kCached) {                               \
      asm volatile("ld.global.nc." to : __VA_ARGS__ : "l"(address));                 \
    } else {                                                                         \
      asm volatile("ld.global." to : __VA_ARGS__ : "l"(address) : "memory");         \
    }                                                                                \
    return r;                                                                        \
  }
template <int kBytes>
struct GlobalLoad;
template <>
struct GlobalLoad<2> {
  u16 word;
  SPARSMITH_GLOBAL_LOAD("u16 %0, [%1];", "=h"(r.word))
};
template <>
struct GlobalLoad<4> {
  u32 word;
  SPARSMITH_GLOBAL_LOAD("u32 %0, [%1];", "=r"(r.word))
};
template <>
struct GlobalLoad<8> {
  u32 words[2];
  SPARSMITH_GLOBAL_LOAD("v2.u32 {%0, %1}, [%2];", "=r"(r.words[0]), "=r"(r.words[1]))
};
template <>
struct GlobalLoad<16> {
  u32 words[4];
  SPARSMITH_GLOBAL_LOAD("v4.u32 {%0, %1, %2, %3}, [%4];", "=r"(r.words[0]), "=r"(r.words[1]), "=r"(r.words[2]),
                        "=r"(r.words[3]))
};
#undef SPARSMITH_GLOBAL_LOAD

// `address` is aligned to sizeof(T), which is 2, 4, 8 or 16 bytes, or 32 bytes, read as two halves.
template <LoadKind kKind, class T>
SPARSMITH_DEVICE T load_global(const T* address) {
  T result;
  if constexpr (sizeof(T) == 32) {
    const auto low = GlobalLoad<16>::from<kKind>(address);
    const auto high = GlobalLoad<16>::from<kKind>(reinterpret_cast<const u8*>(address) + 16);
    memcpy(&result, &low, 16);
    memcpy(reinterpret_cast<u8*>(&result) + 16, &high, 16);
  } else {
    const auto raw = GlobalLoad<sizeof(T)>::template from<kKind>(address);
    memcpy(&result, &raw, sizeof(T));
  }
  return result;
}

// Read-only global memory that is read once: does not displace what L1 holds.
template <class T>
SPARSMITH_DEVICE T load_streaming(const T* from) {
  return load_global<LoadKind::kStreaming>(from);
}

// The same of 16 bits, as a whole register: nothing is done with what is loaded until it is used.
SPARSMITH_DEVICE u32 load_streaming_word(const u16* from) {
  u32 result;
  asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=r"(result) : "l"(from));
  return result;
}

SPARSMITH_DEVICE u32 load_cached_byte(const u8* from) {
  u32 result;
  asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(result) : "l"(from));
  return result;
}

// Read-only global memory that others will read again: through L1. Alignment and sizes as load_streaming.
template <class T>
SPARSMITH_DEVICE T load_cached(const T* from) {
  return load_global<LoadKind::kCached>(from);
}

// Global memory that kernels before this one write: X, what lies in the workspace. Through L1. Not in front of
// wait_for_previous(), and not moved there by the compiler, as loads of read-only memory may be.
template <class T>
SPARSMITH_DEVICE T load_coherent(const T* from) {
  return load_global<LoadKind::kCoherent>(from);
}

// The same of 16 bytes where `wanted`; otherwise zeros, and nothing is read: a predicate, no branch.
template <class T>
SPARSMITH_DEVICE T load_coherent_if(bool wanted, const T* from) {
  static_assert(sizeof(T) == 16, "one load of 16 bytes");
  GlobalLoad<16> raw;
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\tmov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\tmov.u32 %2, 0;\n\t"
      "mov.u32 %3, 0;\n\t@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "=&r"(raw.words[0]), "=&r"(raw.words[1]), "=&r"(raw.words[2]), "=&r"(raw.words[3])
      : "l"(from), "r"(static_cast<u32>(wanted))
      : "memory");
  T result;
  memcpy(&result, &raw, sizeof(T));
  return result;
}

// Asks for the line of global memory that holds the address, as far as L2.
SPARSMITH_DEVICE void prefetch(const void* global) { asm volatile("prefetch.global.L2 [%0];" ::"l"(global)); }

// 16 bytes to global memory in one store, which the compiler does not always make of a plain one. `to` is aligned to
// them.
template <class T>
SPARSMITH_DEVICE void store_whole(T* to, const T& value) {
  static_assert(sizeof(T) == 16, "one store of 16 bytes");
  Vector<u32, 4> words;
  memcpy(&words, &value, sizeof(words));
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}

// Adds to global or shared memory, in no particular order.
SPARSMITH_DEVICE void atomic_add(float* to, float value) { atomicAdd(to, value); }

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
