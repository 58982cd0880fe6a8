// The table of formats. All code that packs, unpacks, checks or draws packed weights loops over it.
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
  std::string_view name{};  // the name of each packing is this, or begins with this and "_"
  // Rounds values to the type. Errors: kInvalidInput if no packing has this name; kInvalidArgument if the packing
  // cannot hold the weight.
  Result<PackedWeight> (*pack)(std::string_view packing, const CsrMatrix& matrix, DataType type) = nullptr;
  Result<std::unique_ptr<PackedReader>> (*open)(const PackedView& view) = nullptr;
  // Arrays that hold values; other numbers may stand between the values. All other arrays are structure. Structure,
  // these other numbers, and facts depend on the pattern and the packing alone. Empty: the format holds a pattern
  // alone, which unpacks with values of 1, and claims nothing of values.
  std::vector<std::string_view> value_arrays{};
  // Between values, value arrays have zeros alone, of the sign that no value of 0 has.
  bool values_alone = false;
  // Whether a value of 0 is stored as -0, and +0 means that the weight has no element there. In other formats 0 is +0.
  bool negative_zeros = false;
  // Whether value arrays may hold codes as well (formats/coding.h).
  bool codes = false;
  bool halves_only = false;  // values are fp16 or bf16
  bool leaves_rest = false;  // whether packings may be the structured part of a hybrid (formats/hybrid.h)
};

// All formats.
std::span<const PackedFormat> packed_formats();
// The format of a packing's name. Error: kInvalidInput if no format has packings of this name.
Result<const PackedFormat*> packed_format(std::string_view packing);
// The arrays that hold values, of a hybrid's rest too. REQUIRES: a packing of a known format.
std::vector<std::string> value_array_names(std::string_view packing);
// Whether the packing holds values, besides the pattern. False for a packing of no known format.
bool holds_values(std::string_view packing);
// Error: kInvalidArgument if the format does not hold weights of this type.
Status check_value_type(const PackedFormat& format, DataType type);

// Whether a packing's name ends in "_transposed": the packing holds the weight's columns in place of its rows. The rest
// of the name says how. Rows, columns and pattern of such a packed weight are still those of the weight itself.
bool is_transposed(std::string_view packing);
std::string transposed_packing(std::string_view packing);
std::string_view without_transposed(std::string_view packing);

// Packs the weight. The packing's name may end in a coding's name and in "_transposed". Errors: those of
// PackedFormat::pack(); kInvalidInput if no format has this name; kInvalidArgument if the format holds no codes.
Result<PackedWeight> pack(std::string_view packing, const CsrMatrix& matrix, DataType type);

// Unpacks the weight, with values as stored. The packed weight may come from a file.
//   Error: kInvalidInput, with the packing's name, if an array is missing, has the wrong size, has numbers that are out
//   of bounds, or is not as packers write it.
Result<CsrMatrix> unpack(const PackedView& packed);
Result<CsrMatrix> unpack(const PackedWeight& packed);

}  // namespace sparsmith
