// New values for a packed weight on the device: a plan of the packing.
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

// For a packing of this name and type, whatever the pattern. The plan binds to the packed arrays with those and the
// facts of add_places(); it is one launch for each value array, without workspace, and leaves captured graphs valid.
// Values are rounded to the packed type, and a zero of either sign becomes that of the format.
//   source: fp32, or the packed type. Error: kInvalidInput for a packing of no known format.
Result<ValueWriter> value_writer(std::string_view packing, DataType type, DataType source);

// Those from each source that there is; none for a packing of no known format.
std::vector<ValueWriter> value_writers(std::string_view packing, DataType type);

}  // namespace sparsmith
