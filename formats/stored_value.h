// Values in the form in which packed arrays hold them.
#pragma once

#include <bit>
#include <cstdint>

#include "base/half.h"
#include "sparsmith/data_type.h"

namespace sparsmith {

// The bits of `value`, rounded to fp16 or bf16. Zeros, also from rounding, become +0.
inline std::uint16_t half_bits(float value, DataType type) {
  const std::uint16_t bits = type == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
  return bits == 0x8000 ? std::uint16_t{0} : bits;
}

// The same, also for fp32. 16-bit values are in the lower half.
inline std::uint32_t value_bits(float value, DataType type) {
  return type == DataType::kFloat32 ? std::bit_cast<std::uint32_t>(value + 0.0F) : half_bits(value, type);
}

// Turns +0 into -0, for formats in which +0 means that the weight has no element there.
template <class Bits>
constexpr Bits with_negative_zero(Bits bits) {
  return bits == 0 ? static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1)) : bits;
}

}  // namespace sparsmith
