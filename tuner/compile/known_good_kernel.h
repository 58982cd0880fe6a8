// A kernel that compiles and runs on every working machine. When it fails, the machine is at fault, and not the kernel
// that failed before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "generator/candidate.h"
#include "runtime/launch_plan.h"

namespace sparsmith {

// Each thread writes its scrambled number to "words".
Result<KernelSource> known_good_kernel();
LaunchPlan known_good_plan();
std::vector<std::uint32_t> known_good_words();  // the contents of "words" after a run

}  // namespace sparsmith
