// Where the time of chosen kernels goes: each is timed once more, beside builds of it without a part
// (generator/ablation.h), all in turns.
//
// These builds are of no use to anybody: none is verified, and none gets into a cache, a tuned file or a recorded
// space.
#pragma once

#include <span>

#include "search/tune_report.h"
#include "search/tuner.h"

namespace sparsmith {

// Fills in BucketChoice::ablation of the generated choices of `report`, which tune() made of the same arguments. On one
// of the devices; stops early when the run is interrupted.
//   Errors: kNoDevice, kDeviceError when the device cannot be had; kInvalidInput when a weight cannot be read again.
Status time_ablations(std::span<const WeightInput> weights, const TuneOptions& options, const TuneResources& resources,
                      TuneReport& report);

}  // namespace sparsmith
