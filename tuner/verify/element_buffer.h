// Numbers in host memory, in a floating element type, with the layout of device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/half.h"
#include "sparsmith/data_type.h"

namespace sparsmith {

// The element at `index` of an array of `type`, which is fp32, fp16 or bf16.
inline float read_element(std::span<const std::byte> bytes, DataType type, std::int64_t index) {
  if (type == DataType::kFloat32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + index * 4, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data() + index * 2, 2);
  return type == DataType::kFloat16 ? float_from_fp16(bits) : float_from_bf16(bits);
}

// An array of `size` elements, initially zero.
class ElementBuffer {
 public:
  ElementBuffer() = default;
  ElementBuffer(DataType type, std::int64_t size)
      : type_(type), bytes_(static_cast<std::size_t>(size) * size_of(type)) {}

  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size() / size_of(type_)); }
  float get(std::int64_t index) const { return read_element(bytes_, type_, index); }
  // Rounds to nearest even.
  void set(std::int64_t index, float value) {
    if (type_ == DataType::kFloat32) {
      std::memcpy(bytes_.data() + index * 4, &value, 4);
    } else {
      const std::uint16_t half = type_ == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value);
      std::memcpy(bytes_.data() + index * 2, &half, 2);
    }
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<std::byte> bytes() { return bytes_; }

 private:
  DataType type_ = DataType::kFloat32;
  std::vector<std::byte> bytes_;
};

}  // namespace sparsmith
