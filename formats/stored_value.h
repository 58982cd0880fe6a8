// Values as packed arrays hold them.
#pragma once

#include <bit>
#include <cstdint>

#include "base/half.h"
#include "sparsmith/data_type.h"

namespace sparsmith {

// `value` rounded to fp16 or bf16. What becomes 0 is +0.
inline std::uint16_t half_bits(float value, DataType type) {
  const std::uint16_t bits = type == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
  return bits == 0x8000 ? std::uint16_t{0} : bits;
}

// The same for fp32 as well; 16 bits are the lower half.
inline std::uint32_t value_bits(float value, DataType type) {
  return type == DataType::kFloat32 ? std::bit_cast<std::uint32_t>(value + 0.0F) : half_bits(value, type);
}

// Bits of +0 as those of -0, in formats whose kernels find +0 where the weight has nothing.
template <class Bits>
constexpr Bits with_negative_zero(Bits bits) {
  return bits == 0 ? static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1)) : bits;
}

}  // namespace sparsmith
