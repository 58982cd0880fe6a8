// Codings: values are stored as codes, with a scale for each group of codes, instead of in the weight's own type.
//
// A coding is a layer over formats. The name of such a packing ends in the name of its coding
// ("csr_u16_a2_natural_mxint8"). The rest of the name says how the codes are packed; the packed weight has the array
// "scales" in addition. A coding rounds a weight as a data type does: kernels multiply by the decoded weight, and every
// decoded value is a value of the weight's type.
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

// The codes as values of a matrix, and the bytes of "scales": [rows][scales_of_row()].
struct CodedWeight {
  CsrMatrix codes;
  std::vector<std::byte> scales;
};

struct Coding {
  std::string_view name;  // as packings' names spell it
  DataType stored;        // the type of a code
  DataType scale;         // the type of "scales"
  std::int64_t group;     // the number of neighbouring columns of a row that share a scale

  // Encodes a weight of `type`. REQUIRES: finite values. Encoding the result of decode() gives the same codes and
  // scales.
  CodedWeight (*encode)(const CsrMatrix& matrix, DataType type);
  // Error: kInvalidInput for scales that encode() does not write for these codes. REQUIRES: the right number of scales.
  Result<CsrMatrix> (*decode)(CsrMatrix codes, std::span<const std::byte> scales, DataType type);

  std::int64_t scales_of_row(std::int64_t cols) const;
};

inline constexpr const char* kScales = "scales";

// All codings. "mxint8": the MXINT8 of the OCP Microscaling Formats specification 1.0 (2023), 8-bit integers and a
// power of two for each 32 columns.
std::span<const Coding> codings();

// That of a packing's name, which is not that of a transposed weight; nullptr where values are of the weight's type.
const Coding* coding_of(std::string_view packing);
std::string_view without_coding(std::string_view packing);

}  // namespace sparsmith
