// The fp64 reference on a device, for problems that take the CPU too long.
#pragma once

#include "generator/candidate.h"
#include "runtime/executor.h"
#include "tuner/reference_problem.h"

namespace sparsmith {

// The kernel for one element type, to be compiled as any other.
Result<KernelSource> reference_kernel(DataType type);

// S and A of every output, as ReferenceProblem::compute_sums(), by that kernel. REQUIRES: `executor` has loaded it.
Result<ReferenceSums> compute_sums_on(Executor& executor, const ReferenceProblem& problem);

}  // namespace sparsmith
