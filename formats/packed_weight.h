// A weight in the layout that kernels read: named arrays that are copied to the GPU as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sparsmith/data_type.h"

namespace sparsmith {

using Facts = std::map<std::string, std::int64_t>;

// Each of several arrays in GPU memory begins at a multiple of this.
inline constexpr std::int64_t kArrayAlignment = 256;
// The GPU memory from an array's beginning to the next one's. An array without elements takes none.
constexpr std::int64_t array_room(std::int64_t bytes) {
  return (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
}
// The GPU memory of these arrays: a single one, such as the dense weight, is as large as a tensor of its own.
template <class Arrays>
std::int64_t gpu_bytes(const Arrays& arrays) {
  if (arrays.size() == 1) return static_cast<std::int64_t>(arrays.front().bytes.size());
  std::int64_t bytes = 0;
  for (const auto& array : arrays) bytes += array_room(static_cast<std::int64_t>(array.bytes.size()));
  return bytes;
}

struct PackedArray {
  std::string name;  // the name that launch plans bind to: "values", "columns", ...
  DataType type = DataType::kUint8;
  std::vector<std::byte> bytes;  // a multiple of size_of(type)

  std::int64_t size() const { return static_cast<std::int64_t>(bytes.size() / size_of(type)); }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

template <class T>
PackedArray array_of(std::string name, DataType type, const std::vector<T>& elements) {
  const auto bytes = std::as_bytes(std::span(elements));
  return {std::move(name), type, {bytes.begin(), bytes.end()}};
}

struct PackedWeight {
  std::string packing;  // names the format and all its parameters: "csr_u16_v4_sorted"; with the weight, it decides
                        // every byte
  int packer_version = 1;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  DataType value_type = DataType::kFloat32;
  std::vector<PackedArray> arrays{};
  Facts facts{};  // counts that plans and cost models use: "segments", "padding", ...

  // nullptr if there is none.
  const PackedArray* array(const std::string& name) const;
  // Bytes of GPU memory of the weight.
  std::int64_t bytes() const;
  // Bytes that a run reads of them: all bytes less the fact "unread_bytes", room that only makes strides equal.
  std::int64_t read_bytes() const;
  // Hash of the names and bytes of all arrays: equal hash, equal contents. 32 hexadecimal digits.
  std::string contents_hash() const;
};

}  // namespace sparsmith
