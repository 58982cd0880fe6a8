// Runs launch plans on guarded, poisoned buffers and checks what they did.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tuner/device_packing.h"
#include "tuner/guarded_buffer.h"
#include "tuner/reference_problem.h"
#include "tuner/verification.h"

namespace sparsmith {

// Holds the inputs and the output of one problem on a device. Executor and problem outlive it.
class PlanVerifier {
 public:
  // REQUIRES: problem.has_reference().
  static Result<std::unique_ptr<PlanVerifier>> create(Executor& executor, const ReferenceProblem& problem);

  // Runs `plan`, whose kernels are loaded, twice: on the drawn inputs, and with Inf and NaN in columns of X that many
  // rows do not touch. On packing "dense" the product comes first, and the second run is left out: a dense product
  // multiplies its zeros. Y and workspace are NaN before each run. Wrong are: an output out of its bound or not
  // written, a write outside of a buffer, a change of an input. An error means that the device failed.
  Result<Verification> verify(const LaunchPlan& plan, DevicePacking& packing);

  // What a run of `plan` is given, with workspace enough; good until the next call of verify() or bindings().
  Result<LaunchBindings> bindings(const LaunchPlan& plan, const DevicePacking& packing);

 private:
  PlanVerifier(Executor& executor, const ReferenceProblem& problem) : executor_(executor), problem_(problem) {}

  // Leaves Y in outputs_.
  Status run(const LaunchPlan& plan, const DevicePacking& packing, std::span<const std::byte> x);
  Result<std::string> damage(DevicePacking& packing, std::span<const std::byte> x);
  // A fault that the emulator saw is the candidate's, and nothing else suffers; on a GPU it is the device's end.
  Result<Verification> fault(const Status& status, DevicePacking& packing);

  Executor& executor_;
  const ReferenceProblem& problem_;
  ReferenceProblem::PoisonedInput poisoned_;
  GuardedBuffer x_;
  GuardedBuffer y_;
  GuardedBuffer bias_;
  GuardedBuffer residual_;
  GuardedBuffer workspace_;
  std::vector<std::byte> outputs_;  // kept from run to run: new memory costs as much as the copy
};

}  // namespace sparsmith
