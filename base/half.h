// Conversions between float and the 16-bit types, on the CPU: round to nearest even, denormals and NaN kept.
#pragma once

#include <bit>
#include <cstdint>

namespace sparsmith {

// It has no branch, so compilers can vectorize it.
inline float float_from_fp16(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFU;
  const std::uint32_t moved = magnitude << 13;
  // The product with a power of two corrects the exponent, also of denormals. Inf and NaN keep all exponent bits set.
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(moved) * 0x1p112F);
  const std::uint32_t value = magnitude < 0x7C00U ? finite : moved | 0x7F800000U;
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits & 0x8000U) << 16 | value);
}
inline std::uint16_t fp16_from_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return sign | 0x7E00U | static_cast<std::uint16_t>((magnitude >> 13) & 0x3FFU);
  if (magnitude >= 0x477FF000U) return sign | 0x7C00U;  // 65520 and above round to infinity
  if (magnitude < 0x38800000U) {
    // Below 2^-14 the result is a denormal: adding 0.5 lets the FPU round at bit 2^-24.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
    return sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) - 0x3F000000U);
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return sign | static_cast<std::uint16_t>((magnitude - (112U << 23) + 0xFFFU + odd) >> 13);
}

inline float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
inline std::uint16_t bf16_from_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace sparsmith
