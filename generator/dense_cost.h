// The cost model of the dense family.
#pragma once

#include "generator/rule.h"

namespace sparsmith {

// Microseconds of Y = W X with a dense W, cold in cache, as cuBLASLt takes them: the largest of moving its bytes, of
// doing its products and of the chain of loads and sums along K, plus a launch.
double predicted_dense_us(const Problem& problem);

// Microseconds that the epilogue takes as a kernel behind the product (dense_family.h): W X written and
// read in fp32, what the epilogue reads, and a launch.
double predicted_dense_epilogue_us(const Problem& problem);

}  // namespace sparsmith
