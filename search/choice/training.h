// What training a weight takes: bytes of the GPU, and the time of a step's three products. Pure functions.
//
// Mixed precision with Adam is counted. A dense weight under a mask has for each element: a value and a gradient in the
// operators' type, a master value and two moments in fp32, and a byte of the mask; values of fp32 are their own
// masters. A sparse weight has the gradient, the master value and the moments for each nonzero, and packings for
// products with the weight and with its transpose. In each packing that holds values a nonzero has a place, where a new
// value goes; an index has 4 bytes at most, and far fewer in blocks (formats/places.h). Values that each run writes as
// a whole lie in the workspace (runtime/training_memory.h).
#pragma once

#include <cstdint>

#include "runtime/tuned_file.h"
#include "search/choice/tune_report.h"

namespace sparsmith {

std::int64_t masked_dense_bytes(std::int64_t rows, std::int64_t cols, DataType type);
// Without packings.
std::int64_t sparse_state_bytes(std::int64_t nnz, DataType type);
// The bytes that packings and their places may take together, so that training takes no more than masked dense
// training.
std::int64_t training_room(const WeightResult& weight);

// Of a report whose weights have choices for all operators, and that was made into `contents`. Finds the places of all
// values. Error: a packing that takes no new values.
Result<TrainingUse> training_use(const TuneReport& report, const TunedContents& contents);

}  // namespace sparsmith
