#include "search/choice/bucket.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "generator/search_space.h"
#include "tuner/compile/compiler_pool.h"

namespace sparsmith {
namespace {

TrialSummary summary_of(const Trial& trial) {
  TrialSummary summary{trial.identity.config, trial.identity.predicted_us, 0, "not tried"};
  if (trial.state == Trial::State::kTimed) {
    summary.median_us = trial.timing.median_us;
    summary.outcome = trial.in_final ? "timed in the final" : "timed";
  } else if (trial.state == Trial::State::kRejected) {
    summary.outcome = rejection_class(trial.status, trial.reason);
  }
  return summary;
}

Rejection rejection_of(const Trial& trial) {
  return {trial.identity.config, trial.candidate.config.family, rejection_class(trial.status, trial.reason),
          trial.reason};
}

void add_rejections(const Bucket& bucket, BucketChoice& choice) {
  std::vector<Rejection>& all = choice.rejections;
  for (const Trial& trial : bucket.trials) {
    if (trial.state == Trial::State::kRejected) all.push_back(rejection_of(trial));
  }
  all.insert(all.end(), bucket.ungenerated.begin(), bucket.ungenerated.end());
  if (all.size() <= BucketChoice::kMostRejections) return;
  choice.further_rejections = static_cast<std::int64_t>(all.size() - BucketChoice::kMostRejections);
  all.resize(BucketChoice::kMostRejections);
}

}  // namespace

namespace {

// As one more library; nothing where none passed. For sddmm the product alone: a dense layer gathers nothing.
std::optional<VendorTiming> dense_of(const Bucket& bucket, bool predicted) {
  const Trial* const dense = baseline_of(bucket.trials, predicted);
  if (dense == nullptr) return std::nullopt;
  const bool is_product = gathers(dense->candidate);
  if (is_product && !predicted && !dense->product) return std::nullopt;
  VendorTiming timing;
  timing.name = dense->candidate.config.family;
  timing.detail = dense->identity.config;
  timing.timing = is_product ? dense->product.value_or(Timing()) : dense->timing;
  if (is_product ? !dense->product : dense->state == Trial::State::kWaiting) {
    const double us = is_product ? dense->predicted_product_us : dense->candidate.predicted_us;
    timing.timing.median_us = timing.timing.q1_us = timing.timing.q3_us = us;
  }
  timing.weight_bytes = dense->packed_bytes;
  timing.verification = dense->verification;
  return timing;
}

}  // namespace

std::vector<double> calls_of(const TuneOptions& options, const OperatorSpec& spec, const DeviceProperties& device) {
  if (!options.calls.empty()) return options.calls;
  std::vector<double> calls;
  double first_us = 0;
  OperatorSpec counted = spec;
  if (options.train) {  // each N has as many calls of all three
    counted.kind = OperatorKind::kSpmm;
    counted.epilogue = {};
    counted.set_weight(spec.weight_rows(), spec.weight_cols(), spec.nnz);
  }
  for (const std::int64_t tokens : options.tokens) {
    const double us = baseline_us({counted, tokens, device});
    if (calls.empty()) first_us = us;
    calls.push_back(us > 0 ? first_us / us : 1);
  }
  return calls;
}

BucketTimes times_of(const Bucket& bucket, bool predicted) {
  const Trial* const dense = baseline_of(bucket.trials, predicted);
  BucketTimes times;
  times.calls = bucket.calls;
  if (dense != nullptr) {
    times.dense_us = dense->state == Trial::State::kWaiting ? dense->candidate.predicted_us : dense->timing.median_us;
    times.dense_packing = dense->identity.packing;
  }
  // As choose_trial() will see them: beside times of the final, those from outside of it do not count.
  std::set<std::string> in_final;
  for (const Trial& trial : bucket.trials) {
    if (trial.state == Trial::State::kTimed && trial.in_final) in_final.insert(trial.identity.packing);
  }
  for (const Trial& trial : bucket.trials) {
    const std::string& packing = trial.identity.packing;
    const bool waits = predicted && trial.state == Trial::State::kWaiting;
    if (trial.state != Trial::State::kTimed && !waits) continue;
    if (!trial.in_final && in_final.contains(packing)) continue;
    const double us = waits ? trial.candidate.predicted_us : trial.timing.median_us;
    const auto [best, is_new] = times.best_us.emplace(packing, us);
    if (!is_new) best->second = std::min(best->second, us);
  }
  return times;
}

std::string rejection_class(MeasurementStatus status, const std::string& reason) {
  switch (status) {
    case MeasurementStatus::kWrong: return "wrong result";
    case MeasurementStatus::kCrashed: return "took the worker down";
    case MeasurementStatus::kTimeout: return "did not come back in time";
    case MeasurementStatus::kTooSlow: return "too slow";
    default: break;
  }
  // Before any worker saw it.
  switch (compiler_loss(reason)) {
    case CompilerLoss::kDied: return "took the compiler down";
    case CompilerLoss::kLate: return "the compiler did not come back in time";
    case CompilerLoss::kNone: break;
  }
  // These go on with a kernel's name, or figures.
  if (reason.starts_with(kOutOfDeviceMemory)) return std::string(kOutOfDeviceMemory);
  if (reason.find(" does not compile for ") != std::string::npos) return "does not compile";
  return reason.substr(0, reason.find('\n'));
}

BucketChoice bucket_choice(const Bucket& bucket, const Winner& winner, bool predicted, const std::string& cache_match) {
  BucketChoice choice;
  choice.spec = bucket.spec;
  choice.tokens = bucket.tokens;
  choice.calls = bucket.calls;
  choice.evidence = predicted ? "predicted" : "measured";
  choice.reason = winner.reason;
  choice.complete = bucket.complete;
  choice.tried = static_cast<int>(bucket.trials.size());
  choice.incumbent = cache_match;
  for (const Trial& trial : bucket.trials) choice.trials.push_back(summary_of(trial));
  add_rejections(bucket, choice);
  choice.candidate = winner.trial->candidate;
  choice.packer_version = winner.trial->identity.packer_version;
  choice.timing = winner.trial->timing;
  choice.verification = winner.trial->verification;
  if (auto dense = dense_of(bucket, predicted)) {
    choice.dense_us = dense->timing.median_us;
    choice.vendors.push_back(*std::move(dense));
  }
  choice.vendors.insert(choice.vendors.end(), bucket.vendors.begin(), bucket.vendors.end());
  return choice;
}

}  // namespace sparsmith
