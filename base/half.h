// Conversions between float and the 16-bit types, on the CPU: round to nearest even, denormals and NaN kept.
#pragma once

#include <bit>
#include <cstdint>

namespace sparsmith {

// Without a branch, so that compilers convert many at once.
inline float float_from_fp16(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFU;
  const std::uint32_t moved = magnitude << 13;
  // A power of two gives exponents their place, those of denormals too; Inf and NaN keep all bits set.
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(moved) * 0x1p112F);
  const std::uint32_t value = magnitude < 0x7C00U ? finite : moved | 0x7F800000U;
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits & 0x8000U) << 16 | value);
}
std::uint16_t fp16_from_float(float value);

inline float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
std::uint16_t bf16_from_float(float value);

}  // namespace sparsmith
