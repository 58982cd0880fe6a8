// The binaries of what was chosen, for the devices that will run it.
#pragma once

#include <span>
#include <vector>

#include "search/kernel_store.h"
#include "search/tune_options.h"
#include "search/tune_report.h"

namespace sparsmith {

// Each distinct kernel of the choices, and of those that write new values, with a binary for the architecture of
// `kernels` and for every further one that the options ask for. What does not compile for one of them is left out, with
// a warning. `compiler` and `cache` may be null. `fault`: takes the first error that is the machine's.
std::vector<KernelImages> images_of(std::span<const WeightResult> weights, KernelStore& kernels,
                                    const TuneOptions& options, const KernelCompiler* compiler, Cache* cache,
                                    Status& fault);

}  // namespace sparsmith
