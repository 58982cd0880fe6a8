// Twin of snippets/device/types.cuh, and what all twins stand on.
//
// The CPU twins of snippets/device/ have the same names, types and semantics, on top of the emulator. They are compiled
// as the first part of every kernel text, so they include no more than each other and hold no more than they must. What
// concerns several threads (barriers, shuffles, asynchronous copies) is a call into the emulator; memory accesses are
// plain C++ and are seen through the compiler's instrumentation. `line` arguments are filled in by the compiler with
// the line of the call in the kernel text, for reports and to tell barriers apart.
#pragma once

#define __global__
#define __launch_bounds__(...)
#define __grid_constant__
#define SPARSMITH_DEVICE inline __attribute__((always_inline))
#define SPARSMITH_UNROLL
#define SPARSMITH_ROLLED
// Behind the declaration of a function that is the emulator's own: sparsmith_emulator_<name> there.
#define SPARSMITH_EMULATED(name) __asm__("sparsmith_emulator_" #name)

namespace sparsmith {

extern void misaligned(const void* address, int bytes, int line) SPARSMITH_EMULATED(misaligned);

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

struct half {
  u16 bits;
};
struct bfloat16 {
  u16 bits;
};

SPARSMITH_DEVICE float to_float(float value) { return value; }
SPARSMITH_DEVICE float to_float(half value) {
  const u32 sign = static_cast<u32>(value.bits & 0x8000U) << 16;
  const u32 magnitude = value.bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) return __builtin_bit_cast(float, sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  // The exponent is moved by a multiplication, which is exact and makes denormals normal as well.
  const float shifted = __builtin_bit_cast(float, magnitude << 13) * 0x1p112F;
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(u32, shifted));
}
SPARSMITH_DEVICE float to_float(bfloat16 value) {
  return __builtin_bit_cast(float, static_cast<u32>(value.bits) << 16);
}

template <class T>
struct FromFloat;
template <>
struct FromFloat<float> {
  static SPARSMITH_DEVICE float convert(float value) { return value; }
};
template <>
struct FromFloat<half> {
  static SPARSMITH_DEVICE half convert(float value) {
    const u32 bits = __builtin_bit_cast(u32, value);
    const u32 sign = (bits >> 16) & 0x8000U;
    const u32 magnitude = bits & 0x7FFFFFFFU;
    u32 result;
    if (magnitude > 0x7F800000U) {
      result = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
    } else if (magnitude >= 0x477FF000U) {
      result = 0x7C00U;
    } else if (magnitude < 0x38800000U) {  // a denormal: adding 0.5 lets the FPU round at bit 2^-24
      result = __builtin_bit_cast(u32, __builtin_bit_cast(float, magnitude) + 0.5F) - 0x3F000000U;
    } else {
      result = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
    }
    return {static_cast<u16>(sign | result)};
  }
};
template <>
struct FromFloat<bfloat16> {
  static SPARSMITH_DEVICE bfloat16 convert(float value) {
    const u32 bits = __builtin_bit_cast(u32, value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<u16>((bits >> 16) | 0x40U)};
    return {static_cast<u16>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
  }
};
template <class T>
SPARSMITH_DEVICE T from_float(float value) {
  return FromFloat<T>::convert(value);
}

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T elements[kCount];
  SPARSMITH_DEVICE T& operator[](int i) { return elements[i]; }
  SPARSMITH_DEVICE const T& operator[](int i) const { return elements[i]; }
};

// For those twins that compute what the machine has an instruction for each of the two types for.
template <class T>
constexpr bool is_bfloat16 = false;
template <>
inline constexpr bool is_bfloat16<bfloat16> = true;

}  // namespace sparsmith
