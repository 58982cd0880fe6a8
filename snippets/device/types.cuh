// Number types, 16-bit floats and their conversions, vectors that are loaded and stored as one access, and the words
// that stand in front of functions and loops.
#pragma once

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/types.h"
#else

#define SPARSMITH_DEVICE __device__ __forceinline__
#define SPARSMITH_UNROLL _Pragma("unroll")
#define SPARSMITH_ROLLED _Pragma("unroll 1")

// PTX that exists from sm_90 on, and whether it does. Kernels for older devices never come there; it would end them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define SPARSMITH_SM_90 false
#define SPARSMITH_ASM_SM_90(...) __trap()
#else
#define SPARSMITH_SM_90 true
#define SPARSMITH_ASM_SM_90(...) asm volatile(__VA_ARGS__)
#endif

namespace sparsmith {

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

// ---- 16-bit floating types: storage only; arithmetic is done in fp32 ----

struct half {
  u16 bits;
};
struct bfloat16 {
  u16 bits;
};

SPARSMITH_DEVICE float to_float(float value) { return value; }
SPARSMITH_DEVICE float to_float(half value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}
SPARSMITH_DEVICE float to_float(bfloat16 value) { return __uint_as_float(static_cast<u32>(value.bits) << 16); }

// from_float<T>(v): v rounded to nearest even.
template <class T>
struct FromFloat;
template <>
struct FromFloat<float> {
  static SPARSMITH_DEVICE float convert(float value) { return value; }
};
template <>
struct FromFloat<half> {
  static SPARSMITH_DEVICE half convert(float value) {
    half result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  }
};
template <>
struct FromFloat<bfloat16> {
  static SPARSMITH_DEVICE bfloat16 convert(float value) {
    bfloat16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  }
};
template <class T>
SPARSMITH_DEVICE T from_float(float value) {
  return FromFloat<T>::convert(value);
}

// ---- vectors ----

// kCount elements that are loaded and stored as one access of their total size (2, 4, 8 or 16 bytes).
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T elements[kCount];
  SPARSMITH_DEVICE T& operator[](int i) { return elements[i]; }
  SPARSMITH_DEVICE const T& operator[](int i) const { return elements[i]; }
};

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
