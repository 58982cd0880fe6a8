#include "tuner/element_buffer.h"

#include <cstring>

#include "base/half.h"

namespace sparsmith {

float read_element(std::span<const std::byte> bytes, DataType type, std::int64_t index) {
  if (type == DataType::kFloat32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + index * 4, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * 2, 2);
  return type == DataType::kFloat16 ? float_from_fp16(bits) : float_from_bf16(bits);
}

void write_element(std::span<std::byte> bytes, DataType type, std::int64_t index, float value) {
  if (type == DataType::kFloat32) {
    std::memcpy(bytes.data() + index * 4, &value, 4);
    return;
  }
  const std::uint16_t bits = type == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
  std::memcpy(bytes.data() + index * 2, &bits, 2);
}

}  // namespace sparsmith
