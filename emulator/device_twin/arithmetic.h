// Twin of snippets/device/arithmetic.cuh.
#pragma once

#include "emulator/device_twin/types.h"

namespace sparsmith {

SPARSMITH_DEVICE u32 dot_bytes(u32 bytes, u32 weights, u32 sum) {
  for (int i = 0; i < 32; i += 8) sum += (bytes >> i & 0xFFU) * (weights >> i & 0xFFU);
  return sum;
}
SPARSMITH_DEVICE u32 dot_halves(u32 words, u32 weights, u32 sum) {
  return sum + (words & 0xFFFFU) * (weights & 0xFFU) + (words >> 16) * (weights >> 8 & 0xFFU);
}

template <class T>
SPARSMITH_DEVICE u32 add_zero_times(u32 pair, u32 sum) {
  constexpr u32 kExponent = is_bfloat16<T> ? 0x7F80U : 0x7C00U;
  if ((pair & kExponent) == kExponent) sum |= 0x7FFFU;
  if ((pair >> 16 & kExponent) == kExponent) sum |= 0x7FFFU << 16;
  return sum;
}

// A product of two fp16 values is exact in fp32. Its sum with a third is not; rounded to odd, it may be rounded again.
SPARSMITH_DEVICE u16 multiply_half(u16 a, u16 b) {
  return from_float<half>(to_float(half{a}) * to_float(half{b})).bits;
}
SPARSMITH_DEVICE u16 multiply_add_half(u16 a, u16 b, u16 c) {
  const float product = to_float(half{a}) * to_float(half{b});
  const float addend = to_float(half{c});
  float sum = product + addend;
  const float rounded = sum - product;  // as much of the addend as is in the sum
  const float lost = (product - (sum - rounded)) + (addend - rounded);
  const u32 bits = __builtin_bit_cast(u32, sum);
  const bool finite = (bits & 0x7F800000U) != 0x7F800000U;
  if (finite && lost != 0 && bits % 2 == 0) {
    sum = __builtin_bit_cast(float, (lost > 0) == (sum > 0) ? bits + 1 : bits - 1);
  }
  return from_float<half>(sum).bits;
}
SPARSMITH_DEVICE u32 multiply_halves(u32 a, u32 b) {
  return multiply_half(static_cast<u16>(a), static_cast<u16>(b)) |
         static_cast<u32>(multiply_half(static_cast<u16>(a >> 16), static_cast<u16>(b >> 16))) << 16;
}
SPARSMITH_DEVICE u32 multiply_add_halves(u32 a, u32 b, u32 c) {
  const u32 high = multiply_add_half(static_cast<u16>(a >> 16), static_cast<u16>(b >> 16), static_cast<u16>(c >> 16));
  return multiply_add_half(static_cast<u16>(a), static_cast<u16>(b), static_cast<u16>(c)) | high << 16;
}
SPARSMITH_DEVICE u32 permute_bytes(u32 a, u32 b, u32 selector) {
  const u64 bytes = a | static_cast<u64>(b) << 32;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    u32 byte = static_cast<u32>(bytes >> (selector >> (4 * i) & 7U) * 8 & 0xFFU);
    if ((selector >> (4 * i) & 8U) != 0) byte = byte >> 7 != 0 ? 0xFFU : 0;
    result |= byte << (8 * i);
  }
  return result;
}
SPARSMITH_DEVICE int count_bits(u32 word) { return __builtin_popcount(word); }

SPARSMITH_DEVICE float float_from_bits(u32 bits) { return __builtin_bit_cast(float, bits); }
SPARSMITH_DEVICE u32 bits_of_float(float value) { return __builtin_bit_cast(u32, value); }

SPARSMITH_DEVICE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SPARSMITH_DEVICE double multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }
SPARSMITH_DEVICE float exponential(float value) { return __builtin_expf(value); }
SPARSMITH_DEVICE float error_function(float value) { return __builtin_erff(value); }
SPARSMITH_DEVICE double absolute(double value) { return __builtin_fabs(value); }
SPARSMITH_DEVICE bool is_finite(float value) { return __builtin_fabsf(value) <= 3.402823466e+38F; }

SPARSMITH_DEVICE u32 known_here(u32 value) { return value; }

}  // namespace sparsmith
