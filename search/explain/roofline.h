// The roofline (S. Williams, A. Waterman, D. Patterson, CACM 52(4), 2009) as a time: the least that a choice can take.
#pragma once

#include <optional>
#include <string>

#include "search/choice/tune_report.h"

namespace sparsmith {

struct RooflineBound {
  std::string by;  // "memory", or for dense "tensor cores"
  double us = 0;
};

// The larger of two times: the bytes of the packed weight, X and Y at the memory's bandwidth (the measured one, if
// known); and, for dense products of 16 bits, the operations at the tensor cores' peak. Launches, gathers and the
// operations of sparse kernels are not counted. Nothing if the bandwidth is unknown.
std::optional<RooflineBound> roofline_bound(const WeightResult& weight, const BucketChoice& bucket,
                                            const DeviceProperties& device);

}  // namespace sparsmith
