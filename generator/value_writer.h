// Writes new values into a packed weight on the device, by a plan for the packing.
#pragma once

#include <vector>

#include "formats/packed_weight.h"
#include "generator/candidate.h"
#include "sparsmith/data_type.h"
#include "sparsmith/status.h"

namespace sparsmith {

struct ValueWriter {
  DataType source = DataType::kFloat32;
  std::vector<KernelSource> kernels;
  LaunchPlan plan;  // operand "values": [nnz] in the order of the pattern
};

// The writer for a packing of this name and type, for any pattern. The plan binds to the packed arrays with the arrays
// and facts of add_places(). It is one launch for each value array, without workspace, and captured graphs stay valid.
// Values are rounded to the packed type; a zero of either sign becomes the format's zero. For a packing of a pattern
// alone the plan is empty.
//   source: fp32, or the packed type. Error: kInvalidInput for a packing of no known format.
Result<ValueWriter> value_writer(std::string_view packing, DataType type, DataType source);

// The writers from each possible source; empty for a packing of no known format.
std::vector<ValueWriter> value_writers(std::string_view packing, DataType type);

}  // namespace sparsmith
