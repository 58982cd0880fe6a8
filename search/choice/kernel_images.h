// The binaries of chosen kernels, for the devices that will run them.
#pragma once

#include <span>
#include <vector>

#include "search/choice/tune_options.h"
#include "search/choice/tune_report.h"
#include "search/trial/kernel_store.h"

namespace sparsmith {

// Each distinct kernel of the choices and of the value writers, with a binary for the architecture of `kernels` and for
// each further architecture of the options. A binary that does not compile is left out with a warning. `compiler` and
// `cache` may be null. `fault`: receives the first fault of the machine.
std::vector<KernelImages> images_of(std::span<const WeightResult> weights, KernelStore& kernels,
                                    const TuneOptions& options, const KernelCompiler* compiler, Cache* cache,
                                    Status& fault);

}  // namespace sparsmith
