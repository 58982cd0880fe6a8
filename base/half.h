// Conversions between float and the 16-bit types, on the CPU: round to nearest even, denormals and NaN kept.
#pragma once

#include <cstdint>

namespace sparsmith {

float float_from_fp16(std::uint16_t bits);
std::uint16_t fp16_from_float(float value);

float float_from_bf16(std::uint16_t bits);
std::uint16_t bf16_from_float(float value);

}  // namespace sparsmith
