// Where the arrays of a weight lie while each run takes new values, as layers that train do.
//
// A run writes the values into the packing that it reads, and then multiplies. A value array that is written as a whole
// needs no memory between runs: it lies in the workspace.
#pragma once

#include <cstdint>

#include "runtime/tuned_file.h"

namespace sparsmith {

enum class ArrayMemory : std::uint8_t {
  kKept,       // memory of its own
  kWorkspace,  // the workspace of a run
  kNothing,    // nowhere: nothing reads it
};
ArrayMemory array_memory(const TunedWeight& weight, const TunedPacking& packing, const TunedArray& array);

// Whether an operator multiplies by the values of a packing, so that they are written.
bool multiplies(const TunedWeight& weight, const TunedPacking& packing);

// Bytes of GPU memory of a packing, each array with its alignment.
struct TrainingMemory {
  std::int64_t packing = 0;
  std::int64_t places = 0;
};
// Finds the places of all values, which takes the time of some packings. Error: kUnsupported for a weight without
// writers.
Result<TrainingMemory> training_memory(const TunedWeight& weight, const TunedPacking& packing);
// Of the values of a packing.
std::int64_t values_in_workspace(const TunedWeight& weight, const TunedPacking& packing);

}  // namespace sparsmith
