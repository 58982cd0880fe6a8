// Arithmetic in registers: integer dot products, bits and bytes of words, and what the mathematics library has.
#pragma once

#include "snippets/device/types.cuh"

#ifdef SPARSMITH_EMULATOR
#include "emulator/device_twin/arithmetic.h"
#else

namespace sparsmith {

// ---- integer dot products ----

// sum + the four products of bytes, and sum + low half of `words` * weights' byte 0 + high half * byte 1; unsigned.
SPARSMITH_DEVICE u32 dot_bytes(u32 bytes, u32 weights, u32 sum) {
  u32 result;
  asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(bytes), "r"(weights), "r"(sum));
  return result;
}
SPARSMITH_DEVICE u32 dot_halves(u32 words, u32 weights, u32 sum) {
  u32 result;
  asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(words), "r"(weights), "r"(sum));
  return result;
}

// ---- words of several values, and their bits ----

// sum + 0 * pair, of two 16-bit values each: begun at 0 it stays (-)0 until a value is Inf or NaN, and is NaN from then
// on.
template <class T>
SPARSMITH_DEVICE u32 add_zero_times(u32 pair, u32 sum);
template <>
SPARSMITH_DEVICE u32 add_zero_times<half>(u32 pair, u32 sum) {
  u32 result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(0U), "r"(sum));
  return result;
}
template <>
SPARSMITH_DEVICE u32 add_zero_times<bfloat16>(u32 pair, u32 sum) {
  u32 result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(0U), "r"(sum));
  return result;
}

// a * b and a * b + c, of two fp16 values each, rounded once.
SPARSMITH_DEVICE u32 multiply_halves(u32 a, u32 b) {
  u32 result;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
SPARSMITH_DEVICE u32 multiply_add_halves(u32 a, u32 b, u32 c) {
  u32 result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

// Bytes chosen from those of a (0 to 3) and b (4 to 7) by the four nibbles of the selector, lowest first; with 8 added
// to a nibble, the byte's highest bit eight times.
SPARSMITH_DEVICE u32 permute_bytes(u32 a, u32 b, u32 selector) {
  u32 result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
  return result;
}
SPARSMITH_DEVICE int count_bits(u32 word) { return __popc(word); }

SPARSMITH_DEVICE float float_from_bits(u32 bits) { return __uint_as_float(bits); }
SPARSMITH_DEVICE u32 bits_of_float(float value) { return __float_as_uint(value); }

// The same value, as if it became known here: what follows from it is not computed in front of a loop, where it would
// take registers for as long as the loop runs.
SPARSMITH_DEVICE u32 known_here(u32 value) {
  asm volatile("" : "+r"(value));
  return value;
}

// ---- floating point ----

SPARSMITH_DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
SPARSMITH_DEVICE double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
SPARSMITH_DEVICE float exponential(float value) { return expf(value); }
SPARSMITH_DEVICE float error_function(float value) { return erff(value); }
SPARSMITH_DEVICE double absolute(double value) { return fabs(value); }
SPARSMITH_DEVICE bool is_finite(float value) { return fabsf(value) <= 3.402823466e+38F; }

}  // namespace sparsmith

#endif  // SPARSMITH_EMULATOR
