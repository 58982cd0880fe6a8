// The table of formats: all that packs, unpacks, checks or draws packed weights loops over it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/packed_check.h"
#include "formats/packed_weight.h"
#include "matrix/csr_matrix.h"
#include "sparsmith/status.h"

namespace sparsmith {

class PackedReader;

struct PackedFormat {
  std::string_view name;  // packings' names are this, or begin with this and "_"
  // Values are rounded to the type. Errors: kInvalidInput for a name of no packing; kInvalidArgument for a packing that
  // cannot hold the weight.
  Result<PackedWeight> (*pack)(std::string_view packing, const CsrMatrix& matrix, DataType type);
  Result<std::unique_ptr<PackedReader>> (*open)(const PackedView& view);
  // Arrays that hold values, which other numbers may stand between; all others are structure. Structure, those numbers
  // and facts depend on the pattern and the packing alone.
  std::vector<std::string_view> value_arrays;
  // A value of 0 is stored as -0: +0 is where the weight has nothing. Elsewhere 0 is +0.
  bool negative_zeros = false;
  // Whether its value arrays hold codes as well (formats/coding.h).
  bool codes = false;
};

// All of them.
std::span<const PackedFormat> packed_formats();
// That of a packing's name. Error: kInvalidInput for a name of none.
Result<const PackedFormat*> packed_format(std::string_view packing);

// Whether a packing's name ends in "_transposed": the weight's columns are packed in place of its rows, by the packing
// that the rest of the name says. Rows, columns and pattern of such a packed weight are still the weight's own.
bool is_transposed(std::string_view packing);
std::string transposed_packing(std::string_view packing);
std::string_view without_transposed(std::string_view packing);

// The weight in the packing of that name, which may end in a coding's name and in "_transposed". Errors:
// PackedFormat::pack()'s; kInvalidInput for a name of no format; kInvalidArgument where the format holds no codes.
Result<PackedWeight> pack(std::string_view packing, const CsrMatrix& matrix, DataType type);

// The weight again, with values as stored: a packed weight may come from a file.
//   Error: kInvalidInput, with the packing's name, where an array is missing, of the wrong size, names what lies
//   outside or is not as packers write it.
Result<CsrMatrix> unpack(const PackedWeight& packed);

}  // namespace sparsmith
