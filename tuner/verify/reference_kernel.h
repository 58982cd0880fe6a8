// The fp64 reference on a device, for problems that are too slow on the CPU.
#pragma once

#include <span>
#include <vector>

#include "generator/candidate.h"
#include "runtime/executor.h"
#include "tuner/verify/device_allocation.h"
#include "tuner/verify/reference_problem.h"

namespace sparsmith {

// The kernel for operators of one element type that multiply by the weight, or that sum over tokens (sddmm). It is
// compiled like any other kernel.
Result<KernelSource> reference_kernel(const OperatorSpec& spec);
std::string reference_kernel_name(const OperatorSpec& spec);

// A weight on the device, for the kernel. It is the same for every N. Movable. The executor outlives the object.
class ReferenceWeight {
 public:
  // `values`: the rounded values of the nonzeros.
  static Result<ReferenceWeight> upload(Executor& executor, const CsrMatrix& matrix, std::span<const float> values);
  const std::vector<LaunchBindings::Packed>& bindings() const { return bindings_; }

 private:
  std::vector<DeviceAllocation> arrays_;
  std::vector<LaunchBindings::Packed> bindings_;  // to arrays_
};

// S and A of every output, as from ReferenceProblem::compute_sums(), computed by the kernel. `weight`: the problem's
// weight. REQUIRES: `executor` has loaded the kernel.
Result<ReferenceSums> compute_sums_on(Executor& executor, const ReferenceProblem& problem,
                                      const ReferenceWeight& weight);

}  // namespace sparsmith
