// Outputs against the expected ones without bringing them to the host: verification.h for large problems.
#pragma once

#include "generator/candidate.h"
#include "runtime/executor.h"
#include "tuner/device_allocation.h"
#include "tuner/verification.h"

namespace sparsmith {

// The kernel for one element type, to be compiled as any other.
Result<KernelSource> output_comparison_kernel(DataType type);

// Holds the expected outputs of one problem on a device, 12 bytes each. Movable; executor and problem outlive it.
class OutputComparison {
 public:
  // REQUIRES: `executor` has loaded the kernel, problem.has_reference().
  static Result<OutputComparison> create(Executor& executor, const ReferenceProblem& problem);

  // Checks `y`, which lies in `layout` without padding, as verify_outputs() does; but sums of errors may differ in the
  // last bits. `poisoned`: as there; then its effects are at `effects` on the device.
  Result<Verification> verify(DeviceAddress y, Layout layout, const PoisonedInput* poisoned = nullptr,
                              DeviceAddress effects = 0) const;

  const DeviceAllocation& values() const { return values_; }
  const DeviceAllocation& bounds() const { return bounds_; }
  const DeviceAllocation& looked_at() const { return looked_at_; }

 private:
  OutputComparison(Executor& executor, const ReferenceProblem& problem) : executor_(&executor), problem_(&problem) {}

  Executor* executor_;
  const ReferenceProblem* problem_;
  DeviceAllocation values_;
  DeviceAllocation bounds_;
  DeviceAllocation looked_at_;
  DeviceAllocation findings_;  // of blocks
};

}  // namespace sparsmith
