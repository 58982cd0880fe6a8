#include "tuner/verify/plan_verifier.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace sparsmith {

Result<std::unique_ptr<PlanVerifier>> PlanVerifier::create(Executor& executor, const ReferenceProblem& problem,
                                                           Fingerprinter* on_device) {
  std::unique_ptr<PlanVerifier> verifier(new PlanVerifier(executor, problem));
  verifier->poisoned_ = problem.poisoned_input();
  for (const DrawnOperand& drawn : problem.operands()) {
    verifier->operands_.emplace_back();
    if (!drawn.operand.present) continue;
    SPARSMITH_ASSIGN_OR_RETURN(verifier->operands_.back(), GuardedBuffer::holding(executor, drawn.contents.bytes()));
  }
  SPARSMITH_ASSIGN_OR_RETURN(verifier->workspace_, GuardedBuffer::make(executor, 0));
  verifier->fingerprinter_ = on_device;
  if (on_device != nullptr) SPARSMITH_RETURN_IF_ERROR(verifier->keep_on_device());
  if (verifier->kept_ != nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(verifier->fingerprint_, verifier->fingerprint());
  }
  return verifier;
}

const GuardedBuffer& PlanVerifier::buffer(std::string_view operand) const {
  return operands_[&problem_.operand(operand) - problem_.operands().data()];
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
  std::vector<Fingerprinter::Range> inputs;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = problem_.operands()[i].operand;
    if (operand.present && operand.access == Access::kIn) inputs.push_back(operands_[i].guarded_range());
  }
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

Result<std::int64_t> PlanVerifier::workspace_bytes(const LaunchPlan& plan, const DevicePacking& packing) const {
  IntegerVariables variables = problem_.variables();
  variables.facts = &packing.packed().facts;
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes, plan.workspace_bytes.evaluate(variables));
  return bytes < 0 ? Result<std::int64_t>(invalid_argument("the plan asks for a negative workspace")) : bytes;
}

Result<LaunchBindings> PlanVerifier::bindings(std::int64_t workspace_bytes, const DevicePacking& packing) {
  LaunchBindings bindings;
  bindings.variables = problem_.variables();
  bindings.variables.facts = &packing.packed().facts;
  const bool is_there = workspace_.address() != 0;  // not where the one before asked for more than there was
  if (!is_there || workspace_.bytes() != static_cast<std::size_t>(workspace_bytes)) {
    workspace_ = GuardedBuffer();  // before the next one takes memory
    SPARSMITH_ASSIGN_OR_RETURN(workspace_, GuardedBuffer::make(executor_, workspace_bytes));
  }
  bindings.packed = packing.bindings();
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = problem_.operands()[i].operand;
    bindings.operands.set(operand.name, operand.present ? operands_[i].address() : 0);
  }
  bindings.workspace = workspace_.address();
  bindings.scalars = problem_.scalars();
  bindings.spec = &problem_.spec();
  return bindings;
}

Result<LaunchBindings> PlanVerifier::bindings(const LaunchPlan& plan, const DevicePacking& packing) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes, workspace_bytes(plan, packing));
  return bindings(bytes, packing);
}

Status PlanVerifier::restore_x(bool poisoned) {
  const DeviceAddress x = buffer("x").address();
  if (kept_ != nullptr) return kept_->restore_x(x, poisoned);
  return executor_.write(x, poisoned ? poisoned_.x.bytes() : problem_.x().bytes());
}

Status PlanVerifier::restore_output() {
  const GuardedBuffer& output = buffer(problem_.output().operand.name);
  SPARSMITH_RETURN_IF_ERROR(output.reset(executor_));
  if (kept_ != nullptr) return kept_->restore_output(output.address());
  return executor_.write(output.address(), problem_.initial_output().bytes());
}

Status PlanVerifier::run(const LaunchPlan& plan, const DevicePacking& packing, bool poisoned) {
  SPARSMITH_ASSIGN_OR_RETURN(const LaunchBindings launch, bindings(plan, packing));
  SPARSMITH_RETURN_IF_ERROR(restore_x(poisoned));
  SPARSMITH_RETURN_IF_ERROR(restore_output());
  SPARSMITH_RETURN_IF_ERROR(workspace_.reset(executor_));
  return executor_.run(plan, launch);
}

Result<Verification> PlanVerifier::look(bool poisoned, bool by_norm) {
  const GuardedBuffer& output = buffer(problem_.output().operand.name);
  if (kept_ != nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(Verification result, kept_->verify(output.address(), problem_.spec().layout, poisoned));
    if (by_norm) allow_norm_error(result, problem_.spec().type);
    return result;
  }
  outputs_.resize(output.bytes());
  SPARSMITH_RETURN_IF_ERROR(executor_.read(outputs_, output.address()));
  return verify_outputs(problem_, outputs_, poisoned ? &poisoned_ : nullptr, by_norm);
}

Result<std::string> PlanVerifier::damage(DevicePacking& packing) {
  std::string found;
  const auto repair = [&](std::string_view name, const GuardedBuffer& buffer, std::span<const std::byte> contents) {
    const Result<std::string_view> done = buffer.repair(executor_, contents);
    if (done.ok() && !done->empty() && found.empty()) found = fmt::format("{} {}", *done, name);
    return done.status();
  };
  // By their fingerprint, where there is one: inputs are read back only to see what was done to which.
  bool inputs_intact = false;
  if (kept_ != nullptr) {
    SPARSMITH_ASSIGN_OR_RETURN(const std::uint64_t now, fingerprint());
    inputs_intact = now == fingerprint_;
  }
  SPARSMITH_RETURN_IF_ERROR(repair("the workspace", workspace_, {}));
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const auto& [operand, stride, contents] = problem_.operands()[i];
    const bool is_input = operand.access == Access::kIn;
    if (!operand.present || (is_input && inputs_intact)) continue;
    SPARSMITH_RETURN_IF_ERROR(
        repair(operand.name, operands_[i], is_input ? contents.bytes() : std::span<const std::byte>()));
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
  // An output that a library has made counts as those of libraries do. Where a kernel of ours unpacked the weight, only
  // if the library's epilogue, which may round once more, has something to do. A gradient of 16 bits is the library's
  // output.
  const bool plain = problem_.spec().epilogue == Epilogue();
  const bool by_norm = std::ranges::any_of(plan.steps, [&](const PlanStep& step) {
    if (step.makes_gradient()) return problem_.spec().gradient_type() != DataType::kFloat32;
    return step.kind == PlanStep::Kind::kMatmul && !step.product && !(step.weight && plain);
  });
  SPARSMITH_ASSIGN_OR_RETURN(Verification result, look(false, by_norm));
  SPARSMITH_ASSIGN_OR_RETURN(const std::string broken, damage(packing));
  if (!broken.empty()) {
    result.ok = false;
    result.reason = result.reason.empty() ? broken : broken + "; " + result.reason;
  }
  // A dense product multiplies its zeros as well: 0 * Inf is NaN there, and rightly so. What a library makes of Inf and
  // NaN in a gradient is its own.
  if (!result.ok || plan.has_matmul()) return result;

  if (const Status ran = run(plan, packing, true); !ran.ok()) return fault(ran, packing);
  SPARSMITH_ASSIGN_OR_RETURN(const Verification poisoned, look(true, false));
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
