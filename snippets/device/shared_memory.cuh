// The block's dynamic shared memory, addresses in it, and loads and stores that go by them.
#pragma once

#include "snippets/device/arithmetic.cuh"
#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/shared_memory.h"
#else

namespace sparsmith {

// The block's dynamic shared memory, aligned to 1,024 bytes: so that tiles in it may be swizzled by their addresses.
SPARSMITH_DEVICE u8* shared_memory() {
  extern __shared__ __align__(1024) u8 sparsmith_shared_bytes[];
  return sparsmith_shared_bytes;
}

// An address in shared memory as a number, which arithmetic needs one register for.
SPARSMITH_DEVICE u32 shared_offset(const void* shared) { return static_cast<u32>(__cvta_generic_to_shared(shared)); }
// Stores the low or the high half of a word to such an address; _if: a predicate, no branch.
SPARSMITH_DEVICE void store_shared_low(u32 at, u32 word) {
  asm volatile("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %1;\n\tst.shared.b16 [%0], low;\n\t}" ::"r"(at),
               "r"(word)
               : "memory");
}
SPARSMITH_DEVICE void store_shared_low_if(bool there, u32 at, u32 word) {
  asm volatile(
      "{\n\t.reg .pred p;\n\t.reg .b16 low, high;\n\tsetp.ne.u32 p, %0, 0;\n\tmov.b32 {low, high}, %2;\n\t"
      "@p st.shared.b16 [%1], low;\n\t}" ::"r"(static_cast<u32>(there)),
      "r"(at), "r"(word)
      : "memory");
}
SPARSMITH_DEVICE void store_shared_high_if(bool there, u32 at, u32 word) {
  asm volatile(
      "{\n\t.reg .pred p;\n\t.reg .b16 low, high;\n\tsetp.ne.u32 p, %0, 0;\n\tmov.b32 {low, high}, %2;\n\t"
      "@p st.shared.b16 [%1], high;\n\t}" ::"r"(static_cast<u32>(there)),
      "r"(at), "r"(word)
      : "memory");
}

// A place in shared memory as the machine addresses it: in 32 bits, which are cheaper to compute with than a pointer.
struct SharedAddress {
  u32 at;
};
SPARSMITH_DEVICE SharedAddress shared_address(const void* shared) {
  return {static_cast<u32>(__cvta_generic_to_shared(shared))};
}
SPARSMITH_DEVICE SharedAddress advanced(SharedAddress from, u32 bytes) { return {from.at + bytes}; }

// kScale bytes, of at most 255, for each one that a half of `word` counts: one instruction.
template <int kScale>
SPARSMITH_DEVICE SharedAddress advance_by_low_half(SharedAddress from, u32 word) {
  return {dot_halves(word, kScale, from.at)};
}
template <int kScale>
SPARSMITH_DEVICE SharedAddress advance_by_high_half(SharedAddress from, u32 word) {
  return {dot_halves(word, kScale << 8, from.at)};
}
// The 16 bytes there, aligned to 16.
template <class T>
SPARSMITH_DEVICE T load_shared(SharedAddress from) {
  static_assert(sizeof(T) == 16);
  u32 words[4];
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(from.at)
               : "memory");
  T result;
  memcpy(&result, words, 16);
  return result;
}

// A thread's place in a row of 16-bit values in shared memory, of which it takes one after another.
struct SharedCursor {
  u32 at;
};
SPARSMITH_DEVICE SharedCursor shared_cursor(const void* shared) {
  return {static_cast<u32>(__cvta_generic_to_shared(shared))};
}
SPARSMITH_DEVICE SharedCursor advanced(SharedCursor cursor, u32 bytes) { return {cursor.at + bytes}; }
// The next value where bit kBit of `word` is set, otherwise 0 and the cursor stays. Compilers turn the branch into a
// predicate, and seven tests of neighbouring bits into one instruction; of predicated PTX they make a test each. (The
// test itself is PTX because for bit 0 they would find a longer way.)
template <int kBit>
SPARSMITH_DEVICE u32 take_if(SharedCursor& cursor, u32 word) {
  u32 value = 0;
  u32 bit;
  asm("and.b32 %0, %1, %2;" : "=r"(bit) : "r"(word), "n"(1U << kBit));
  if (bit != 0) {
    asm volatile("ld.shared.u16 %0, [%1];" : "=r"(value) : "r"(cursor.at));
    cursor.at += 2;
  }
  return value;
}

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
