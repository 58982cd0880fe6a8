// NumPy's .npy arrays, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1 to 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory_limit.h"
#include "matrix/csr_matrix.h"

namespace sparsmith {

// A view of one array. The caller of parse_npy() owns the bytes.
struct NpyArray {
  char kind = 'f';            // 'f' float, 'i' and 'u' integers, 'b' bool, 'S' bytes, 'U' UCS-4 text
  std::size_t item_size = 0;  // bytes of an element
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  // empty for a scalar
  std::span<const std::byte> data;  // its size is given by shape and item_size
  std::size_t data_offset = 0;      // of `data` in the file

  std::int64_t elements() const;
  // The type of a matrix of these elements: fp16 for f2, fp32 for all other kinds.
  DataType data_type() const { return kind == 'f' && item_size == 2 ? DataType::kFloat16 : DataType::kFloat32; }
  // Element number `index` in the order of the bytes. REQUIRES a numeric or bool kind.
  double real(std::int64_t index) const;
  // The same for integer kinds; no value when the number does not fit 64 signed bits. REQUIRES kind 'i' or 'u'.
  std::optional<std::int64_t> integer(std::int64_t index) const;
  // The first element of a text array, ASCII only. REQUIRES kind 'S' or 'U'.
  std::string text() const;
};

// Parses little-endian arrays of f2, f4, f8, integers, bool and text.
//   Errors: kInvalidInput for a file that is no .npy or is cut off; kUnsupported for other element types.
Result<NpyArray> parse_npy(std::span<const std::byte> file);

// Converts a dense 2-D numeric array: f2 becomes fp16, all other types fp32. Zeros are dropped.
//   Errors: as parse_npy; kUnsupported when the array is not 2-D; kInvalidInput when an element is not finite;
//   kOutOfMemory when a matrix without zeros would take more than `max_bytes`.
Result<CsrMatrix> csr_from_npy(const NpyArray& array, std::int64_t max_bytes = kNoMemoryLimit);

}  // namespace sparsmith
