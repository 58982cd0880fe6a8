// The faulty candidates of a build with -DSPARSMITH_PLANTS=ON (tests/support/plant.h).
#pragma once

#include <chrono>
#include <string>

#include "generator/kernel_text.h"
#include "runtime/launch_plan.h"

namespace sparsmith {

// Where Plant::kCandidateFaults is planted, breaks one in twenty of the kernels, drawn by name: `text`, the kernel that
// multiplies, and where the fault asks for it the plan. Whatever is broken has another closure hash than the sound
// kernel of that name, so that a cache takes neither for the other. Environment:
//   SPARSMITH_PLANT_SEED     of the draw; default: 1
//   SPARSMITH_PLANT_SHARE    percent of the kernels; default: 5
//   SPARSMITH_PLANT_FAULTS   which of the faults, by name; default: address,endless,wrong,source,assembly,trap,memory,
//                            crash,hang
// One that makes no sense ends the program.
void plant_fault(KernelText& text, LaunchPlan& plan);

// What the compiler program does before it compiles `source`: with "crash" it aborts, with "hang" it never returns. To
// any other compiler these kernels are sound.
void obey_planted_fault(const std::string& source);

// What the compiler may take for a kernel: the seconds in SPARSMITH_PLANT_COMPILER_LIMIT, or `otherwise`.
std::chrono::milliseconds planted_compiler_limit(std::chrono::milliseconds otherwise);

}  // namespace sparsmith
