#include "search/trial/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "tuner/process/environment_fault.h"

namespace sparsmith {
namespace {

// The worker says which of the two it was; nothing but the record depends on the word.
MeasurementStatus status_of(const Status& error) {
  if (error.code() != StatusCode::kDeviceError) return MeasurementStatus::kFailed;
  return error.message().find("gave no answer") != std::string::npos ? MeasurementStatus::kTimeout
                                                                     : MeasurementStatus::kCrashed;
}

Status put_binaries(const KernelStore& kernels, const DeviceProperties& device, Trial& trial) {
  for (std::size_t i = 0; i < trial.candidate.kernels.size(); ++i) {
    const KernelSource& source = trial.candidate.kernels[i];
    SPARSMITH_ASSIGN_OR_RETURN(const CompiledKernel* compiled, kernels.find(source));
    SPARSMITH_RETURN_IF_ERROR(check_resources(*compiled, source, device.registers_per_sm));
    trial.loaded.kernels[i].cubin = compiled->cubin;
  }
  return {};
}

}  // namespace

void Trial::reject(MeasurementStatus why, std::string because) {
  if (why == MeasurementStatus::kCrashed || why == MeasurementStatus::kTimeout)
    log_debug("left out: {} ({}): {}", identity.config, identity.packing, because);
  state = State::kRejected;
  status = why;
  reason = std::move(because);
}

void Trial::reject(const Status& error) {
  const bool memory = error.code() == StatusCode::kOutOfMemory;
  reject(status_of(error), memory ? fmt::format("{}: {}", kOutOfDeviceMemory, error.message()) : error.message());
  unjudged = is_environment_fault(error) || error.message().find(kTooLittleHostMemory) != std::string::npos;
}

void Trial::reject_unseen(const Status& error) {
  reject(MeasurementStatus::kFailed, error.message());
  unjudged = is_environment_fault(error);
}

Result<Candidate> generate_candidate(const Config& config, const Problem& problem, const PackedWeight& packed,
                                     bool programmatic) {
  SPARSMITH_ASSIGN_OR_RETURN(Candidate candidate, family(config.family)->generate(config, problem, packed));
  if (problem.device.compute_capability >= kProgrammaticFrom) launch_programmatically(candidate.plan, programmatic);
  return candidate;
}

bool gathers(const Candidate& candidate) {
  return std::ranges::any_of(candidate.plan.steps, &PlanStep::makes_gradient);
}

CompiledCandidate product_of(const CompiledCandidate& candidate) {
  CompiledCandidate product = candidate;
  product.kernels.clear();
  std::erase_if(product.plan.steps, [](const PlanStep& step) { return !step.makes_gradient(); });
  return product;
}

CompiledCandidate loaded_candidate(const Candidate& candidate) {
  CompiledCandidate loaded;
  loaded.plan = candidate.plan;
  loaded.packing = candidate.packing;
  for (const KernelSource& kernel : candidate.kernels) {
    loaded.kernels.push_back({kernel.name, kernel.source, {}, kernel.max_shared_bytes});
  }
  return loaded;
}

void attach_binaries(const KernelStore& kernels, const DeviceProperties& device, Trial& trial) {
  const Status status = put_binaries(kernels, device, trial);
  if (!status.ok()) trial.reject_unseen(status);
}

}  // namespace sparsmith
