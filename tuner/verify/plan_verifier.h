// Runs launch plans on guarded, poisoned buffers and checks the results.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/verify/device_packing.h"
#include "tuner/verify/device_problem.h"
#include "tuner/verify/guarded_buffer.h"
#include "tuner/verify/reference_problem.h"
#include "tuner/verify/verification.h"

namespace sparsmith {

// Holds the inputs and the output of one problem on a device. Executor and problem outlive the object.
class PlanVerifier {
 public:
  // `on_device`: when not null, inputs are restored and outputs are compared on the device (device_problem.h), unless
  // its memory is too small. For many outputs this is far faster than on the host. It outlives the verifier.
  // REQUIRES: problem.has_reference(); with `on_device` also the requirements of DeviceProblem::upload().
  static Result<std::unique_ptr<PlanVerifier>> create(Executor& executor, const ReferenceProblem& problem,
                                                      Fingerprinter* on_device = nullptr);

  // The object that compares outputs on the device. Null: the host compares.
  const DeviceProblem* on_device() const { return kept_.get(); }

  // Runs `plan`, whose kernels are loaded, twice. The first run has the drawn inputs. The second has Inf and NaN in
  // columns of X: they must reach exactly the rows that store a weight there. There is no second run when a step
  // multiplies the dense weight with its zeros. Y and workspace are NaN before each run. Wrong are: an output out of
  // its bound or not written, a write outside of a buffer, a change of an input. An error means that the device failed.
  Result<Verification> verify(const LaunchPlan& plan, DevicePacking& packing);

  // Checks outputs that do not come from a plan: for the drawn inputs, with the problem's epilogue, at `y` on the
  // device, without padding, in `layout`. No value when the host compares.
  Result<std::optional<Verification>> compare(DeviceAddress y, Layout layout);

  // The workspace that a run of `plan` needs.
  Result<std::int64_t> workspace_bytes(const LaunchPlan& plan, const DevicePacking& packing) const;
  // The bindings of a run, with `workspace_bytes` of workspace or as much as `plan` needs. They are valid until the
  // next call of verify() or bindings(), and while the packing exists.
  Result<LaunchBindings> bindings(std::int64_t workspace_bytes, const DevicePacking& packing);
  Result<LaunchBindings> bindings(const LaunchPlan& plan, const DevicePacking& packing);

 private:
  PlanVerifier(Executor& executor, const ReferenceProblem& problem) : executor_(executor), problem_(problem) {}

  // Uploads inputs and expected outputs into kept_. Without enough memory kept_ is null.
  Status keep_on_device();
  // Uploads kept_ again when a candidate or another launch has overwritten it.
  Status repair_kept();
  const GuardedBuffer& buffer(std::string_view operand) const;
  // The fingerprint of all inputs with their guards. REQUIRES: fingerprinter_ is not null.
  Result<std::uint64_t> fingerprint() const;
  Status restore_x(bool poisoned);
  Status restore_output();
  Status run(const LaunchPlan& plan, const DevicePacking& packing, bool poisoned);
  // Checks the output of a run.
  Result<Verification> look(bool poisoned, bool by_norm);
  // The damage that a run on the drawn X did to other buffers. Undoes it.
  Result<std::string> damage(DevicePacking& packing);
  // The result of a failed run. A fault on the emulator is the candidate's error and harms nothing else. On a GPU the
  // device is lost.
  Result<Verification> fault(const Status& status, DevicePacking& packing);

  Executor& executor_;
  const ReferenceProblem& problem_;
  PoisonedInput poisoned_;
  std::vector<GuardedBuffer> operands_;  // of problem_.operands(); empty for an operand that is not present
  GuardedBuffer workspace_;
  Fingerprinter* fingerprinter_ = nullptr;
  std::unique_ptr<DeviceProblem> kept_;
  std::uint64_t fingerprint_ = 0;   // of the inputs with the drawn X; valid when kept_ is not null
  std::vector<std::byte> outputs_;  // kept between runs: new memory costs as much as the copy
};

}  // namespace sparsmith
