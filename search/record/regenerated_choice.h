// Host code for a choice of a tuned file. A tuned file comes from anywhere, so its sources are never compiled for the
// host: the kernels are generated anew from the choice's config, and only these run in the emulator.
#pragma once

#include "runtime/tuned_file.h"
#include "sparsmith/status.h"
#include "tuner/compile/kernel_compiler.h"

namespace sparsmith {

// The choice as the emulator takes it: the plan, and kernels with newly generated source and without binaries.
//   weight, spec: the weight of `contents` and its operator that hold `choice`.
//   Errors: kInvalidInput for a config or a device class that cannot be read; kUnsupported where the generated plan or
//   the generated sources differ from the stored ones, as those of another version of sparsmith do.
Result<CompiledCandidate> regenerated_choice(const TunedContents& contents, const TunedWeight& weight,
                                             const OperatorSpec& spec, const TunedChoice& choice);

// Ok when the host has the memory for a run of the choice in the emulator, in two processes: the weight, unpacked and
// packed, X, Y, the residual or the gradients, the fp64 reference with its bounds, and the workspace.
//   max_memory: in bytes; 0: half of the machine's.
Status check_emulated_memory(const TunedWeight& weight, const OperatorSpec& spec, const TunedChoice& choice,
                             std::int64_t tokens, std::int64_t max_memory);

}  // namespace sparsmith
