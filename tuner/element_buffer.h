// Numbers in host memory in one of the floating element types, as they are copied to a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sparsmith/data_type.h"

namespace sparsmith {

// The element at `index` of an array of `type`, which is fp32, fp16 or bf16.
float read_element(std::span<const std::byte> bytes, DataType type, std::int64_t index);
// Rounds to nearest even.
void write_element(std::span<std::byte> bytes, DataType type, std::int64_t index, float value);

// An array of `size` elements; zero at first.
class ElementBuffer {
 public:
  ElementBuffer() = default;
  ElementBuffer(DataType type, std::int64_t size)
      : type_(type), bytes_(static_cast<std::size_t>(size) * size_of(type)) {}

  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size() / size_of(type_)); }
  float get(std::int64_t index) const { return read_element(bytes_, type_, index); }
  void set(std::int64_t index, float value) { write_element(bytes_, type_, index, value); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<std::byte> bytes() { return bytes_; }

 private:
  DataType type_ = DataType::kFloat32;
  std::vector<std::byte> bytes_;
};

}  // namespace sparsmith
