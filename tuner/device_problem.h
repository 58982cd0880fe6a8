// A problem's inputs and expected outputs, kept on the device for as long as candidates are checked on it.
#pragma once

#include <cstdint>
#include <memory>

#include "tuner/fingerprint.h"
#include "tuner/output_comparison.h"

namespace sparsmith {

// Takes 12 bytes an output, 4 bytes a row of outputs, twice X, and old values where the epilogue has beta. What is
// passed outlives it.
class DeviceProblem {
 public:
  // REQUIRES: `executor` has loaded the problem's output_comparison_kernel(); problem.has_reference(); the problem has
  // no padding.
  static Result<std::unique_ptr<DeviceProblem>> upload(Executor& executor, const ReferenceProblem& problem,
                                                       const PoisonedInput& poisoned, Fingerprinter& fingerprinter);

  // Whether all of it is as it was uploaded: a candidate may have written anywhere.
  Result<bool> is_intact() const;

  // The drawn X, or the poisoned one, to `x`.
  Status restore_x(DeviceAddress x, bool poisoned) const;
  // Old values to `output`, where there are any: it is NaN already where there are none.
  Status restore_output(DeviceAddress output) const;

  // Outputs of the drawn X, or of the poisoned one.
  Result<Verification> verify(DeviceAddress output, Layout layout, bool poisoned = false) const;

  const OutputComparison& comparison() const { return comparison_; }

 private:
  DeviceProblem(Executor& executor, OutputComparison comparison, const PoisonedInput& poisoned,
                Fingerprinter& fingerprinter)
      : executor_(executor), comparison_(std::move(comparison)), poisoned_(poisoned), fingerprinter_(fingerprinter) {}
  Result<std::uint64_t> fingerprint() const;

  Executor& executor_;
  OutputComparison comparison_;
  const PoisonedInput& poisoned_;
  Fingerprinter& fingerprinter_;
  DeviceAllocation x_;
  DeviceAllocation poisoned_x_;
  DeviceAllocation effects_;
  DeviceAllocation old_output_;  // empty without beta
  std::uint64_t fingerprint_ = 0;
};

}  // namespace sparsmith
