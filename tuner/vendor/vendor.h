// A vendor library, opened at run time. Its times are baselines.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/gpu_executor.h"
#include "tuner/time/gpu_timer.h"
#include "tuner/vendor/vendor_timing.h"
#include "tuner/verify/device_allocation.h"
#include "tuner/verify/plan_verifier.h"

namespace sparsmith {

// The problem for vendor libraries: Y = alpha * W X on the inputs of a problem, without its epilogue.
//
// X and Y are on the GPU in the operator's layout, and also in the other layout when it is first needed. The executor
// and the problem outlive the object.
class VendorProblem {
 public:
  // `verifier`: the problem's verifier, which compares outputs on the device. It outlives the object. May be null.
  static Result<std::unique_ptr<VendorProblem>> create(GpuExecutor& executor, const ReferenceProblem& problem,
                                                       PlanVerifier* verifier);

  GpuExecutor& executor() const { return executor_; }
  // The problem, without an epilogue.
  const ReferenceProblem& plain() const { return *plain_; }
  bool epilogue_left_out() const { return epilogue_left_out_; }

  struct Activations {
    DeviceAllocation x;
    DeviceAllocation y;
  };
  Result<const Activations*> activations(Layout layout);

  // poison() fills Y in `layout` with NaN; verify() checks Y after a run.
  Status poison(Layout layout);
  Result<Verification> verify(Layout layout);

 private:
  VendorProblem(GpuExecutor& executor, const ReferenceProblem& problem, PlanVerifier* verifier);

  GpuExecutor& executor_;
  std::optional<ReferenceProblem> own_;
  const ReferenceProblem* plain_;  // without an epilogue
  bool epilogue_left_out_;
  PlanVerifier* verifier_;  // null when the epilogue is left out: its expected outputs have the epilogue
  std::unique_ptr<Activations> by_layout_[2];
};

// One way of a library to compute a problem: an algorithm and an order of the operands.
class VendorWork : public TimedWork {
 public:
  // A library does not tell the number of its kernels. One node: then the limit on copies is the same as for
  // candidates.
  int nodes() const override { return 1; }

  virtual std::string detail() const = 0;         // "CSR_ALG2, X row-major"
  virtual Layout layout() const = 0;              // of X and Y
  virtual std::int64_t bytes_on_gpu() const = 0;  // of the weight, with the data from preprocessing
};

// Holds the library's handle. Keeps a weight on the GPU between problems. One thread at a time, with the GPU's context
// current.
class Vendor {
 public:
  virtual ~Vendor() = default;

  // Every way to compute `problem`, which outlives the works. Error: kUnsupported when there is no way.
  virtual Result<std::vector<std::unique_ptr<VendorWork>>> works(VendorProblem& problem) = 0;

  // Tells that the next problem has another weight.
  virtual void forget_weight() = 0;
};

// Errors: kNoDevice when the library is missing; kUnsupported for a version that is not known.
Result<std::unique_ptr<Vendor>> open_cusparse(GpuExecutor& executor);
Result<std::unique_ptr<Vendor>> open_cusparse_lt(GpuExecutor& executor);

// The fastest of `works` with a correct output (norm_error_limit), with its time under `policy`. Each work is tried for
// three replays; works that fail are left out. No work, and VendorTiming::broke and slower, when one breaks the GPU's
// context, or gives no answer within `limit`.
// Error: kUnsupported when no work succeeds.
struct BestVendorWork {
  std::unique_ptr<VendorWork> work;
  VendorTiming timing;
};
Result<BestVendorWork> best_work(GpuTimer& timer, VendorProblem& problem,
                                 std::vector<std::unique_ptr<VendorWork>> works, const TimingPolicy& policy,
                                 std::chrono::milliseconds limit = std::chrono::seconds(5));

}  // namespace sparsmith
