// The fp64 reference on a device, for problems that take the CPU too long.
#pragma once

#include <span>
#include <vector>

#include "generator/candidate.h"
#include "runtime/executor.h"
#include "tuner/device_allocation.h"
#include "tuner/reference_problem.h"

namespace sparsmith {

// The kernel for one element type, to be compiled as any other.
Result<KernelSource> reference_kernel(DataType type);

// A weight on the device as the kernel reads it: the same for every N. Movable; the executor outlives it.
class ReferenceWeight {
 public:
  // `values`: of the nonzeros, rounded.
  static Result<ReferenceWeight> upload(Executor& executor, const CsrMatrix& matrix, std::span<const float> values);
  std::vector<LaunchBindings::Packed> bindings() const;

 private:
  DeviceAllocation row_offsets_;
  DeviceAllocation columns_;
  DeviceAllocation values_;
};

// S and A of every output, as ReferenceProblem::compute_sums(), by that kernel. `weight`: the problem's. REQUIRES:
// `executor` has loaded the kernel.
Result<ReferenceSums> compute_sums_on(Executor& executor, const ReferenceProblem& problem,
                                      const ReferenceWeight& weight);

}  // namespace sparsmith
