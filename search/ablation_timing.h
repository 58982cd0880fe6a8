// Times chosen kernels beside builds without one part (generator/ablation.h), interleaved, to show where their time
// goes. These builds are never verified, and never get into a cache, a tuned file or a recorded space.
#pragma once

#include <span>

#include "search/choice/tune_report.h"
#include "search/tune.h"

namespace sparsmith {

// Fills in BucketChoice::ablation of the generated choices of `report`, which tune() made from the same arguments. Uses
// one of the devices. Stops early when the run is interrupted.
//   Errors: kNoDevice, kDeviceError when the device cannot be had; kInvalidInput when a weight cannot be read again.
Status time_ablations(std::span<const WeightInput> weights, const TuneOptions& options, const TuneResources& resources,
                      TuneReport& report);

}  // namespace sparsmith
