// A kernel that compiles and runs wherever anything does. Where it fails, the machine is at fault, not the kernel that
// failed before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "generator/candidate.h"
#include "runtime/launch_plan.h"

namespace sparsmith {

// Each thread writes its number, scrambled, to "words".
Result<KernelSource> known_good_kernel();
LaunchPlan known_good_plan();
std::vector<std::uint32_t> known_good_words();  // what "words" holds then

}  // namespace sparsmith
