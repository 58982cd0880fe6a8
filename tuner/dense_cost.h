// What dense would cost, where no dense library can be timed.
#pragma once

#include "generator/rule.h"

namespace sparsmith {

// Microseconds of Y = W X with a dense W, cold in cache: the larger of moving its bytes and of doing its products, each
// at what vendor libraries reach of the device's peak, plus a launch.
double predicted_dense_us(const Problem& problem);

}  // namespace sparsmith
