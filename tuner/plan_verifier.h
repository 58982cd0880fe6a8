// Runs launch plans on guarded, poisoned buffers and checks what they did.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/device_packing.h"
#include "tuner/device_problem.h"
#include "tuner/guarded_buffer.h"
#include "tuner/reference_problem.h"
#include "tuner/verification.h"

namespace sparsmith {

// Holds the inputs and the output of one problem on a device. Executor and problem outlive it.
class PlanVerifier {
 public:
  // `on_device`: where given, inputs are restored and outputs compared on the device, which takes the host far longer
  // where there are many (device_problem.h); unless memory does not suffice. It outlives the verifier.
  // REQUIRES: problem.has_reference(); with `on_device` what DeviceProblem::upload() does.
  static Result<std::unique_ptr<PlanVerifier>> create(Executor& executor, const ReferenceProblem& problem,
                                                      Fingerprinter* on_device = nullptr);

  // Whether outputs are compared on the device, and by what. Null: on the host.
  const DeviceProblem* on_device() const { return kept_.get(); }

  // Runs `plan`, whose kernels are loaded, twice: on the drawn inputs, and with Inf and NaN in columns of X, which
  // must reach the rows that store a weight there and no others. The second run is left out where a step multiplies the
  // dense weight, and so its zeros. Y and workspace are NaN before each run. Wrong are:
  // an output out of its bound or not written, a write outside of a buffer, a change of an input. An error means that
  // the device failed.
  Result<Verification> verify(const LaunchPlan& plan, DevicePacking& packing);

  // Checks outputs that no plan made: of the drawn inputs, with the problem's epilogue, at `y` on the device, without
  // padding in `layout`. Nothing where comparing is left to the host.
  Result<std::optional<Verification>> compare(DeviceAddress y, Layout layout);

  // Workspace that a run of `plan` asks for.
  Result<std::int64_t> workspace_bytes(const LaunchPlan& plan, const DevicePacking& packing) const;
  // What a run of `plan` is given, with so much workspace or as much as it asks for; good until the next call of
  // verify() or bindings(), and as long as the packing.
  Result<LaunchBindings> bindings(std::int64_t workspace_bytes, const DevicePacking& packing);
  Result<LaunchBindings> bindings(const LaunchPlan& plan, const DevicePacking& packing);

 private:
  PlanVerifier(Executor& executor, const ReferenceProblem& problem) : executor_(executor), problem_(problem) {}

  // Brings inputs and expected outputs to the device; leaves kept_ null where there is no memory for them.
  Status keep_on_device();
  // Brings again what a candidate, or another launch, has overwritten.
  Status repair_kept();
  const GuardedBuffer& buffer(std::string_view operand) const;
  // Of all inputs with their guards. REQUIRES: fingerprinter_ is there.
  Result<std::uint64_t> fingerprint() const;
  Status restore_x(bool poisoned);
  Status restore_output();
  Status run(const LaunchPlan& plan, const DevicePacking& packing, bool poisoned);
  // What came out of a run.
  Result<Verification> look(bool poisoned, bool by_norm);
  // What a run on the drawn X did to other buffers, which it undoes.
  Result<std::string> damage(DevicePacking& packing);
  // A fault that the emulator saw is the candidate's, and nothing else suffers; on a GPU it is the device's end.
  Result<Verification> fault(const Status& status, DevicePacking& packing);

  Executor& executor_;
  const ReferenceProblem& problem_;
  PoisonedInput poisoned_;
  std::vector<GuardedBuffer> operands_;  // of problem_.operands(); nothing of one that is not present
  GuardedBuffer workspace_;
  Fingerprinter* fingerprinter_ = nullptr;
  std::unique_ptr<DeviceProblem> kept_;
  std::uint64_t fingerprint_ = 0;   // with the drawn X; where kept_ is there
  std::vector<std::byte> outputs_;  // kept from run to run: new memory costs as much as the copy
};

}  // namespace sparsmith
