// What the device itself lets a choice take: the roofline (S. Williams, A. Waterman, D. Patterson, CACM 52(4), 2009) as
// a time.
#pragma once

#include <optional>
#include <string>

#include "search/tune_report.h"

namespace sparsmith {

struct RooflineBound {
  std::string by;  // "memory", or for dense "tensor cores"
  double us = 0;
};

// The larger of what applies: the bytes of the packed weight, X and Y at the memory's bandwidth (measured, where it
// was), and for dense products of 16 bits their operations at the peak of the tensor cores. Launches and gathers are
// not in it, nor what sparse kernels multiply: how many operations they need is their own affair. Nothing where the
// bandwidth is not known.
std::optional<RooflineBound> roofline_bound(const WeightResult& weight, const BucketChoice& bucket,
                                            const DeviceProperties& device);

}  // namespace sparsmith
