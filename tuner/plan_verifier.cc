#include "tuner/plan_verifier.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "runtime/tuned_file.h"

namespace sparsmith {

Result<std::unique_ptr<PlanVerifier>> PlanVerifier::create(Executor& executor, const ReferenceProblem& problem,
                                                           Fingerprinter* on_device) {
  std::unique_ptr<PlanVerifier> verifier(new PlanVerifier(executor, problem));
  verifier->poisoned_ = problem.poisoned_input();
  SPARSMITH_ASSIGN_OR_RETURN(verifier->x_, GuardedBuffer::holding(executor, problem.x().bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(verifier->y_, GuardedBuffer::holding(executor, problem.initial_y().bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(verifier->bias_, GuardedBuffer::holding(executor, problem.bias().bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(verifier->residual_, GuardedBuffer::holding(executor, problem.residual().bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(verifier->workspace_, GuardedBuffer::make(executor, 0));
  verifier->fingerprinter_ = on_device;
  if (on_device != nullptr) SPARSMITH_RETURN_IF_ERROR(verifier->keep_on_device());
  if (verifier->kept_ != nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(verifier->fingerprint_, verifier->fingerprint());
  }
  return verifier;
}

Status PlanVerifier::repair_kept() {
  if (kept_ == nullptr) return {};
  SPARSMITH_ASSIGN_OR_RETURN(const bool intact, kept_->is_intact());
  return intact ? Status() : keep_on_device();
}

Result<std::optional<Verification>> PlanVerifier::compare(DeviceAddress y, Layout layout) {
  SPARSMITH_RETURN_IF_ERROR(repair_kept());
  if (kept_ == nullptr) return std::optional<Verification>();
  SPARSMITH_ASSIGN_OR_RETURN(Verification verification, kept_->verify(y, layout));
  return std::optional(std::move(verification));
}

Result<std::uint64_t> PlanVerifier::fingerprint() const {
  const Fingerprinter::Range inputs[] = {x_.guarded_range(), bias_.guarded_range(), residual_.guarded_range()};
  return fingerprinter_->of(inputs);
}

Status PlanVerifier::keep_on_device() {
  kept_.reset();  // before the next one takes memory
  Result<std::unique_ptr<DeviceProblem>> kept = DeviceProblem::upload(executor_, problem_, poisoned_, *fingerprinter_);
  if (kept.status().code() == StatusCode::kOutOfMemory) {
    log_debug("outputs are compared on the host: {}", kept.status().to_string());
    fingerprinter_ = nullptr;
    return {};
  }
  SPARSMITH_RETURN_IF_ERROR(kept.status());
  kept_ = *std::move(kept);
  return {};
}

Result<LaunchBindings> PlanVerifier::bindings(const LaunchPlan& plan, const DevicePacking& packing) {
  LaunchBindings bindings;
  bindings.variables = problem_.variables();
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t workspace_bytes, plan.workspace_bytes.evaluate(bindings.variables));
  if (workspace_bytes < 0) return invalid_argument("the plan asks for a negative workspace");
  const bool is_there = workspace_.address() != 0;  // not where the one before asked for more than there was
  if (!is_there || workspace_.bytes() != static_cast<std::size_t>(workspace_bytes)) {
    workspace_ = GuardedBuffer();  // before the next one takes memory
    SPARSMITH_ASSIGN_OR_RETURN(workspace_, GuardedBuffer::make(executor_, workspace_bytes));
  }
  bindings.packed = packing.bindings();
  bindings.x = x_.address();
  bindings.y = y_.address();
  if (problem_.spec().epilogue.bias) bindings.bias = bias_.address();
  if (problem_.spec().epilogue.residual) bindings.residual = residual_.address();
  bindings.workspace = workspace_.address();
  bindings.alpha = problem_.alpha();
  bindings.beta = problem_.beta();
  return bindings;
}

Status PlanVerifier::restore_x(bool poisoned) {
  if (kept_ != nullptr) return kept_->restore_x(x_.address(), poisoned);
  return executor_.write(x_.address(), poisoned ? poisoned_.x.bytes() : problem_.x().bytes());
}

Status PlanVerifier::restore_y() {
  SPARSMITH_RETURN_IF_ERROR(y_.reset(executor_));
  if (kept_ != nullptr) return kept_->restore_y(y_.address());
  return executor_.write(y_.address(), problem_.initial_y().bytes());
}

Status PlanVerifier::run(const LaunchPlan& plan, const DevicePacking& packing, bool poisoned) {
  SPARSMITH_ASSIGN_OR_RETURN(const LaunchBindings launch, bindings(plan, packing));
  SPARSMITH_RETURN_IF_ERROR(restore_x(poisoned));
  SPARSMITH_RETURN_IF_ERROR(restore_y());
  SPARSMITH_RETURN_IF_ERROR(workspace_.reset(executor_));
  if (packing.packed().packing == kDensePacking)
    SPARSMITH_RETURN_IF_ERROR(executor_.multiply_dense(problem_.spec(), launch));
  return executor_.run(plan, launch);
}

Result<Verification> PlanVerifier::look(bool poisoned) {
  if (kept_ != nullptr) return kept_->verify(y_.address(), problem_.spec().layout, poisoned);
  outputs_.resize(y_.bytes());
  SPARSMITH_RETURN_IF_ERROR(executor_.read(outputs_, y_.address()));
  return verify_outputs(problem_, outputs_, poisoned ? &poisoned_ : nullptr);
}

Result<std::string> PlanVerifier::damage(DevicePacking& packing) {
  struct Watched {
    const char* name;
    const GuardedBuffer& buffer;
    std::span<const std::byte> contents;
    bool constant;
  };
  const Watched all[] = {{"y", y_, {}, false},
                         {"the workspace", workspace_, {}, false},
                         {"x", x_, problem_.x().bytes(), true},
                         {"the bias", bias_, problem_.bias().bytes(), true},
                         {"the residual", residual_, problem_.residual().bytes(), true}};
  // By their fingerprint, where there is one: inputs are read back only to see what was done to which.
  bool inputs_intact = false;
  if (kept_ != nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::uint64_t now, fingerprint());
    inputs_intact = now == fingerprint_;
  }
  std::string found;
  for (const Watched& watched : all) {
    if (watched.constant && inputs_intact) continue;
    SPARSMITH_ASSIGN_OR_RETURN(const bool guards, watched.buffer.guards_intact(executor_));
    bool contents = true;
    if (watched.constant) {
      SPARSMITH_ASSIGN_OR_RETURN(contents, watched.buffer.holds(executor_, watched.contents));
    }
    if (guards && contents) continue;
    if (found.empty()) found = fmt::format("{} {}", contents ? "wrote outside of" : "changed", watched.name);
    SPARSMITH_RETURN_IF_ERROR(watched.buffer.reset(executor_));
    SPARSMITH_RETURN_IF_ERROR(executor_.write(watched.buffer.address(), watched.contents));
  }
  SPARSMITH_ASSIGN_OR_RETURN(const std::string packed, packing.damage(executor_));
  return found.empty() ? packed : found;
}

Result<Verification> PlanVerifier::fault(const Status& status, DevicePacking& packing) {
  if (!executor_.properties().is_emulator || status.code() != StatusCode::kDeviceError) return status;
  SPARSMITH_RETURN_IF_ERROR(damage(packing).status());
  Verification result;
  result.reason = status.message();
  return result;
}

Result<Verification> PlanVerifier::verify(const LaunchPlan& plan, DevicePacking& packing) {
  SPARSMITH_RETURN_IF_ERROR(repair_kept());
  if (const Status ran = run(plan, packing, false); !ran.ok()) return fault(ran, packing);
  SPARSMITH_ASSIGN_OR_RETURN(Verification result, look(false));
  SPARSMITH_ASSIGN_OR_RETURN(const std::string broken, damage(packing));
  if (!broken.empty()) {
    result.ok = false;
    result.reason = result.reason.empty() ? broken : broken + "; " + result.reason;
  }
  // A dense product multiplies its zeros as well: 0 * Inf is NaN there, and rightly so.
  const bool skips_zeros = packing.packed().packing != kDensePacking;
  if (!result.ok || !skips_zeros) return result;

  if (const Status ran = run(plan, packing, true); !ran.ok()) return fault(ran, packing);
  SPARSMITH_ASSIGN_OR_RETURN(const Verification poisoned, look(true));
  result.max_error_over_bound = std::max(result.max_error_over_bound, poisoned.max_error_over_bound);
  if (!poisoned.ok) {
    result.ok = false;
    result.reason = "with Inf and NaN in X: " + poisoned.reason;
  }
  // Timing goes on with ordinary inputs.
  SPARSMITH_RETURN_IF_ERROR(restore_x(false));
  return result;
}

}  // namespace sparsmith
