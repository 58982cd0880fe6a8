// Codings: values that are stored as codes, and a scale for each group of them, in place of the weight's own type.
//
// A coding is a layer over formats. A packing whose name ends in a coding's ("csr_u16_a2_natural_mxint8") holds the
// codes as the rest of its name says, and has the array "scales" besides. A coding rounds a weight as a type does: what
// decoding yields is the weight that kernels multiply, every value of it one of the weight's type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "matrix/csr_matrix.h"
#include "sparsmith/data_type.h"
#include "sparsmith/status.h"

namespace sparsmith {

// Codes as values of the matrix, and the bytes of "scales": [rows][scales_of_row()].
struct CodedWeight {
  CsrMatrix codes;
  std::vector<std::byte> scales;
};

struct Coding {
  std::string_view name;  // how packings' names spell it
  DataType stored;        // of a code
  DataType scale;         // of "scales"
  std::int64_t group;     // neighbouring columns of a row that share a scale

  // Codes for a weight of `type`. REQUIRES: finite values. Encoding what decode() yields gives the same codes and
  // scales.
  CodedWeight (*encode)(const CsrMatrix& matrix, DataType type);
  // Error: kInvalidInput for scales that encode() does not write for these codes. REQUIRES: as many as there are.
  Result<CsrMatrix> (*decode)(CsrMatrix codes, std::span<const std::byte> scales, DataType type);

  std::int64_t scales_of_row(std::int64_t cols) const;
};

inline constexpr const char* kScales = "scales";

// All of them. "mxint8": the MXINT8 of the OCP Microscaling Formats specification 1.0 (2023), 8-bit integers and a
// power of two for each 32 columns.
std::span<const Coding> codings();

// That of a packing's name, which is not that of a transposed weight; nullptr where values are of the weight's type.
const Coding* coding_of(std::string_view packing);
std::string_view without_coding(std::string_view packing);

}  // namespace sparsmith
