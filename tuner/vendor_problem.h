// What vendor libraries are measured on: Y = alpha * W X on the inputs of a problem, without its epilogue.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/gpu_executor.h"
#include "tuner/device_allocation.h"
#include "tuner/plan_verifier.h"
#include "tuner/reference_problem.h"
#include "tuner/verification.h"

namespace sparsmith {

// X and Y lie on the GPU in the operator's layout, and, made when first asked for, in the other one. The executor and
// the problem outlive it.
class VendorProblem {
 public:
  // `verifier`: of the problem, to compare outputs on the device; outlives it. May be null.
  static Result<std::unique_ptr<VendorProblem>> create(GpuExecutor& executor, const ReferenceProblem& problem,
                                                       PlanVerifier* verifier);

  GpuExecutor& executor() const { return executor_; }
  const CudaDriver& driver() const { return executor_.driver(); }
  const OperatorSpec& spec() const { return plain_->spec(); }
  const CsrMatrix& matrix() const { return plain_->matrix(); }
  std::span<const float> values() const { return plain_->values(); }
  std::int64_t tokens() const { return plain_->tokens(); }
  float alpha() const { return plain_->alpha(); }
  bool epilogue_left_out() const { return epilogue_left_out_; }

  struct Activations {
    DeviceAllocation x;
    DeviceAllocation y;
    std::int64_t ldx = 0;
    std::int64_t ldy = 0;
  };
  Result<const Activations*> activations(Layout layout);

  // Fills Y in `layout` with NaN; and checks it after a run.
  Status poison(Layout layout);
  Result<Verification> verify(Layout layout);

 private:
  VendorProblem(GpuExecutor& executor, const ReferenceProblem& problem, PlanVerifier* verifier);

  GpuExecutor& executor_;
  std::optional<ReferenceProblem> own_;
  const ReferenceProblem* plain_;  // without an epilogue
  bool epilogue_left_out_;
  PlanVerifier* verifier_;  // null where the epilogue is left out: it knows other outputs
  std::unique_ptr<Activations> by_layout_[2];
};

// A second array on the GPU that holds what `original` does.
Result<DeviceAllocation> device_copy(GpuExecutor& executor, const DeviceAllocation& original);

}  // namespace sparsmith
