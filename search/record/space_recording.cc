#include "search/record/space_recording.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>

#include "search/choice/choice.h"

namespace sparsmith {
namespace {

RecordedCandidate recorded(const TuneRun& run, const Trial& trial) {
  RecordedCandidate candidate;
  candidate.config = trial.candidate.config;
  candidate.packing = trial.identity.packing;
  candidate.packed_bytes = trial.packed_bytes;
  candidate.closure_hash = trial.identity.closure_hash;
  candidate.predicted_us = trial.identity.predicted_us;
  for (const KernelSource& kernel : trial.candidate.kernels) {
    candidate.kernels.push_back(kernel.name);
    const auto compiled = run.kernels->find(kernel);
    if (compiled.ok()) candidate.registers = std::max(candidate.registers, (*compiled)->figures.registers);
  }
  candidate.status = trial.status;
  candidate.reason = trial.reason;
  candidate.samples_us = trial.samples_us;
  candidate.final_us = trial.final_us;
  candidate.copies = trial.timing.copies;
  candidate.warm = trial.timing.warm;
  candidate.max_error_over_bound = trial.verification.max_error_over_bound;
  candidate.seconds = trial.seconds;
  return candidate;
}

}  // namespace

RecordedSpace recorded_space(const TuneRun& run, const WeightResult& weight, const OperatorSpec& spec,
                             const SparsityStatistics& statistics, std::int64_t tokens, std::int64_t considered,
                             const std::vector<Trial>& trials, const std::vector<VendorTiming>& vendors) {
  RecordedSpace space;
  space.weight = weight.name;
  space.pattern_hash = weight.pattern_hash;
  space.value_hash = weight.value_hash;
  space.rows = spec.rows;
  space.cols = spec.cols;
  space.nnz = weight.nnz;
  space.row_cov = statistics.row_cov;
  space.row_length_histogram = statistics.row_length_histogram;
  space.operator_name = spec.name();
  space.tokens = tokens;
  space.device_class = run.device.device_class();
  space.device_name = run.device.name;
  space.memory_bandwidth = run.device.memory_bandwidth;
  space.driver_version = run.device.driver_version;
  space.nvrtc_version = run.kernels->nvrtc_version();
  space.program_version = run.program_version;
  space.timing_policy = run.options.timing.name();
  space.recorded_at =
      fmt::format("{:%FT%TZ}", std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
  space.strategy = strategy_name(run.options.strategy);
  space.seed = run.options.seed;
  space.considered = considered;
  if (const Trial* const dense = baseline_of(trials, /*predicted=*/false))
    space.vendors.push_back({dense->candidate.config.family, true, dense->identity.config,
                             dense->final_us.empty() ? dense->samples_us : dense->final_us, dense->packed_bytes});
  for (const VendorTiming& vendor : vendors) {
    space.vendors.push_back(
        {vendor.name, vendor.supported, vendor.detail, vendor.timing.samples_us, vendor.weight_bytes});
  }
  for (const Trial& trial : trials) {
    if (trial.state != Trial::State::kWaiting && !trial.baseline) space.candidates.push_back(recorded(run, trial));
  }
  return space;
}

}  // namespace sparsmith
