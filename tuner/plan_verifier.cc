#include "tuner/plan_verifier.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tuned_file.h"

namespace sparsmith {

Result<std::unique_ptr<PlanVerifier>> PlanVerifier::create(Executor& executor, const ReferenceProblem& problem) {
  std::unique_ptr<PlanVerifier> verifier(new PlanVerifier(executor, problem));
  verifier->poisoned_ = problem.poisoned_input();
  SPARSMITH_ASSIGN_OR_RETURN(verifier->x_, GuardedBuffer::holding(executor, problem.x().bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(verifier->y_, GuardedBuffer::holding(executor, problem.initial_y().bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(verifier->bias_, GuardedBuffer::holding(executor, problem.bias().bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(verifier->residual_, GuardedBuffer::holding(executor, problem.residual().bytes()));
  SPARSMITH_ASSIGN_OR_RETURN(verifier->workspace_, GuardedBuffer::make(executor, 0));
  return verifier;
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

Status PlanVerifier::run(const LaunchPlan& plan, const DevicePacking& packing, std::span<const std::byte> x) {
  SPARSMITH_ASSIGN_OR_RETURN(const LaunchBindings launch, bindings(plan, packing));
  SPARSMITH_RETURN_IF_ERROR(executor_.write(x_.address(), x));
  SPARSMITH_RETURN_IF_ERROR(y_.reset(executor_));
  SPARSMITH_RETURN_IF_ERROR(executor_.write(y_.address(), problem_.initial_y().bytes()));
  SPARSMITH_RETURN_IF_ERROR(workspace_.reset(executor_));
  if (packing.packed().packing == kDensePacking)
    SPARSMITH_RETURN_IF_ERROR(executor_.multiply_dense(problem_.spec(), launch));
  SPARSMITH_RETURN_IF_ERROR(executor_.run(plan, launch));
  outputs_.resize(y_.bytes());
  return executor_.read(outputs_, y_.address());
}

Result<std::string> PlanVerifier::damage(DevicePacking& packing, std::span<const std::byte> x) {
  struct Watched {
    const char* name;
    const GuardedBuffer& buffer;
    std::span<const std::byte> contents;
    bool constant;
  };
  const Watched all[] = {{"y", y_, {}, false},
                         {"the workspace", workspace_, {}, false},
                         {"x", x_, x, true},
                         {"the bias", bias_, problem_.bias().bytes(), true},
                         {"the residual", residual_, problem_.residual().bytes(), true}};
  std::string found;
  for (const Watched& watched : all) {
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
  SPARSMITH_RETURN_IF_ERROR(damage(packing, problem_.x().bytes()).status());
  Verification result;
  result.reason = status.message();
  return result;
}

Result<Verification> PlanVerifier::verify(const LaunchPlan& plan, DevicePacking& packing) {
  if (const Status ran = run(plan, packing, problem_.x().bytes()); !ran.ok()) return fault(ran, packing);
  Verification result = verify_outputs(problem_, outputs_);
  SPARSMITH_ASSIGN_OR_RETURN(const std::string broken, damage(packing, problem_.x().bytes()));
  if (!broken.empty()) {
    result.ok = false;
    result.reason = result.reason.empty() ? broken : broken + "; " + result.reason;
  }
  // A dense product multiplies its zeros as well: 0 * Inf is NaN there, and rightly so.
  const bool skips_zeros = packing.packed().packing != kDensePacking;
  if (!result.ok || !poisoned_.any_free || !skips_zeros) return result;

  if (const Status ran = run(plan, packing, poisoned_.x.bytes()); !ran.ok()) return fault(ran, packing);
  const Verification poisoned = verify_outputs(problem_, outputs_, &poisoned_.free_rows);
  result.max_error_over_bound = std::max(result.max_error_over_bound, poisoned.max_error_over_bound);
  if (!poisoned.ok) {
    result.ok = false;
    result.reason = "Inf or NaN in X reaches rows whose weights are 0 there: " + poisoned.reason;
  }
  // Timing goes on with ordinary inputs.
  SPARSMITH_RETURN_IF_ERROR(executor_.write(x_.address(), problem_.x().bytes()));
  return result;
}

}  // namespace sparsmith
