// A problem's inputs and expected outputs on the device, for all checks of candidates on this problem. Outputs are
// compared on the device and need not be copied to the host. This is verification.h for large problems.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "generator/candidate.h"
#include "runtime/executor.h"
#include "tuner/verify/device_allocation.h"
#include "tuner/verify/fingerprint.h"
#include "tuner/verify/verification.h"

namespace sparsmith {

// The kernel that compares outputs of one element type. It is compiled like any other kernel.
Result<KernelSource> output_comparison_kernel(DataType type);
std::string output_comparison_kernel_name(DataType type);

// Takes 12 bytes per output, 4 bytes per row of outputs, twice the bytes of X, and old values when the epilogue has
// beta. The arguments outlive the object.
class DeviceProblem {
 public:
  // REQUIRES: `executor` has loaded the problem's output_comparison_kernel(); problem.has_reference(); the problem has
  // no padding.
  static Result<std::unique_ptr<DeviceProblem>> upload(Executor& executor, const ReferenceProblem& problem,
                                                       const PoisonedInput& poisoned, Fingerprinter& fingerprinter);

  // Whether the uploaded data is unchanged: a candidate may have written anywhere.
  Result<bool> is_intact() const;

  // Copies the drawn X, or the poisoned X, to `x`.
  Status restore_x(DeviceAddress x, bool poisoned) const;
  // Copies old values to `output` when there are any. Otherwise `output` is NaN already.
  Status restore_output(DeviceAddress output) const;

  // Checks the outputs for the drawn X, or for the poisoned X, as verify_outputs() does. They lie in `layout` without
  // padding. Sums of errors may differ from the host's in the last bits.
  Result<Verification> verify(DeviceAddress output, Layout layout, bool poisoned = false) const;

  // The expected outputs.
  const DeviceAllocation& values() const { return values_; }

 private:
  DeviceProblem(Executor& executor, const ReferenceProblem& problem, const PoisonedInput& poisoned,
                Fingerprinter& fingerprinter)
      : executor_(executor), problem_(problem), poisoned_(poisoned), fingerprinter_(fingerprinter) {}
  Result<std::uint64_t> fingerprint() const;

  Executor& executor_;
  const ReferenceProblem& problem_;
  const PoisonedInput& poisoned_;
  Fingerprinter& fingerprinter_;
  DeviceAllocation values_;
  DeviceAllocation bounds_;
  DeviceAllocation looked_at_;  // empty when all tokens are checked
  DeviceAllocation x_;
  DeviceAllocation poisoned_x_;
  DeviceAllocation effects_;
  DeviceAllocation old_output_;  // empty without beta
  DeviceAllocation findings_;    // one for each block
  std::uint64_t fingerprint_ = 0;
};

}  // namespace sparsmith
