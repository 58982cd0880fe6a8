#include "search/trial/measurement_log.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"

namespace sparsmith {
namespace {

// How often a candidate may cost a process, by whoever's doing, before it is left alone.
constexpr int kMostAbandoned = 4;

// Of a MeasurementRecord, or a CandidateIdentity.
std::string key_of(const auto& of) {
  return fmt::format("{}|{}|{}|{}", of.config, of.packing, of.packer_version, of.closure_hash);
}

}  // namespace

MeasurementLog::MeasurementLog(Cache* cache, MeasurementRecord base) : cache_(cache), base_(std::move(base)) {
  if (cache_ == nullptr) return;
  auto measurements = cache_->measurements(base_.key);
  if (!measurements.ok()) {
    log_debug("the cache was not read: {}", measurements.status().message());
    return;
  }
  for (MeasurementRecord& record : *measurements) {
    if (record.environment_id != base_.environment_id) continue;
    Known& known = known_[key_of(record)];
    if (record.abandoned) ++known.abandoned;
    known.last = std::move(record);
  }
}

void MeasurementLog::begin(const CandidateIdentity& candidate) {
  running_ = 0;
  if (cache_ == nullptr) return;
  MeasurementRecord record = base_;
  record.config = candidate.config;
  record.packing = candidate.packing;
  record.packer_version = candidate.packer_version;
  record.closure_hash = candidate.closure_hash;
  record.predicted_us = candidate.predicted_us;
  const auto id = cache_->begin(record);
  if (id.ok()) running_ = *id;
}

void MeasurementLog::finish(MeasurementStatus status, const std::string& reason, const Timing& timing,
                            double error_over_bound, bool unjudged) {
  if (cache_ == nullptr || running_ == 0) return;
  MeasurementRecord outcome;
  outcome.status = unjudged ? MeasurementStatus::kCrashed : status;
  outcome.abandoned = unjudged;
  outcome.reason = reason;
  outcome.median_us = timing.median_us;
  outcome.q1_us = timing.q1_us;
  outcome.q3_us = timing.q3_us;
  outcome.samples = static_cast<int>(timing.samples_us.size());
  outcome.copies = timing.copies;
  outcome.warm = timing.warm;
  outcome.max_error_over_bound = error_over_bound;
  (void)cache_->finish(running_, outcome);
  running_ = 0;
}

std::optional<MeasurementRecord> MeasurementLog::find(const CandidateIdentity& candidate) const {
  const auto found = known_.find(key_of(candidate));
  if (found == known_.end()) return std::nullopt;
  const MeasurementRecord& last = found->second.last;
  if (last.status == MeasurementStatus::kFailed) return std::nullopt;
  if (last.abandoned && found->second.abandoned < kMostAbandoned) return std::nullopt;
  return last;
}

}  // namespace sparsmith
