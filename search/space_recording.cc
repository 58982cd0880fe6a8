#include "search/space_recording.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>

#include "search/choice.h"

namespace sparsmith {
namespace {

RecordedCandidate recorded(const TuneContext& context, const Contender& contender) {
  RecordedCandidate candidate;
  candidate.config = contender.candidate.config;
  candidate.packing = contender.identity.packing;
  candidate.packed_bytes = contender.packed_bytes;
  candidate.closure_hash = contender.identity.closure_hash;
  candidate.predicted_us = contender.identity.predicted_us;
  for (const KernelSource& kernel : contender.candidate.kernels) {
    candidate.kernels.push_back(kernel.name);
    const auto compiled = context.kernels->find(kernel);
    if (compiled.ok()) candidate.registers = std::max(candidate.registers, (*compiled)->figures.registers);
  }
  candidate.status = contender.status;
  candidate.reason = contender.reason;
  candidate.samples_us = contender.samples_us;
  candidate.final_us = contender.final_us;
  candidate.copies = contender.timing.copies;
  candidate.warm = contender.timing.warm;
  candidate.max_error_over_bound = contender.verification.max_error_over_bound;
  candidate.seconds = contender.seconds;
  return candidate;
}

}  // namespace

RecordedSpace recorded_space(const TuneContext& context, const WeightResult& weight, const OperatorSpec& spec,
                             const SparsityStatistics& statistics, std::int64_t tokens, std::int64_t considered,
                             const std::vector<Contender>& contenders, const std::vector<VendorTiming>& vendors) {
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
  space.device_class = context.device.device_class();
  space.device_name = context.device.name;
  space.memory_bandwidth = context.device.memory_bandwidth;
  space.driver_version = context.device.driver_version;
  space.nvrtc_version = context.kernels->nvrtc_version();
  space.program_version = context.program_version;
  space.timing_policy = context.options->timing.name();
  space.recorded_at =
      fmt::format("{:%FT%TZ}", std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
  space.strategy = strategy_name(context.options->strategy);
  space.seed = context.options->seed;
  space.considered = considered;
  if (const Contender* const dense = baseline_of(contenders, /*predicted=*/false))
    space.vendors.push_back({dense->candidate.config.family, true, dense->identity.config,
                             dense->final_us.empty() ? dense->samples_us : dense->final_us, dense->packed_bytes});
  for (const VendorTiming& vendor : vendors) {
    space.vendors.push_back(
        {vendor.name, vendor.supported, vendor.detail, vendor.timing.samples_us, vendor.weight_bytes});
  }
  for (const Contender& contender : contenders) {
    if (contender.state != Contender::State::kWaiting && !contender.baseline)
      space.candidates.push_back(recorded(context, contender));
  }
  return space;
}

}  // namespace sparsmith
