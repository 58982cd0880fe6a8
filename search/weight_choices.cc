// How a weight's search ends: the packings that the weight keeps, and the choice at each N.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/stopwatch.h"
#include "search/bucket_search.h"
#include "search/byte_limit.h"
#include "search/choice/training.h"
#include "search/weight_search.h"

namespace sparsmith {
namespace {

std::string nothing_passes(const Bucket& bucket) {
  const auto dense = std::ranges::find(bucket.trials, true, &Trial::baseline);
  return fmt::format("no candidate for N = {} passes, and dense cannot serve: {}", bucket.tokens,
                     dense == bucket.trials.end() ? "it was not tried" : dense->reason);
}

}  // namespace

Status WeightSearch::keep_packing(const BucketChoice& bucket) {
  const std::string& name = bucket.candidate.packing;
  const bool kept = std::ranges::any_of(weight_.packings, [&](const PackedWeight& p) { return p.packing == name; });
  if (kept) return {};
  const Stopwatch stopwatch(counts_.pack_seconds);
  // The search may have dropped it to make room.
  const Problem problem{bucket.spec, bucket.tokens, run_.device};
  SPARSMITH_RETURN_IF_ERROR(packings_.get(bucket.candidate.config, problem).status());
  weight_.packings.push_back(packings_.take(name));
  return {};
}

void WeightSearch::adopt() {
  for (SearchedOperator& op : operators_) {
    std::vector<BucketChoice> choices = op.cached->take();
    const std::vector<double> calls = calls_of(run_.options, op.spec, run_.device);
    for (std::size_t i = 0; i < choices.size(); ++i) choices[i].calls = calls[i];
    std::ranges::move(choices, std::back_inserter(weight_.buckets));
  }
  counts_.cached += static_cast<std::int64_t>(weight_.buckets.size());
}

// Chooses by prediction and verifies the chosen trials; after a failure chooses again without it. Where there is no
// device, the chosen trials are only packed and compiled.
Status WeightSearch::predict() {
  for (Bucket& bucket : buckets_) {
    end_search(bucket);
    if (hurried_) bucket.complete = false;
  }
  bool rejected = true;
  while (std::exchange(rejected, false)) {
    request_choices();
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      Trial* trial = unverified_choice(buckets_[i]);
      if (trial == nullptr) continue;
      bucket_begins(i);
      if (session_ != nullptr) {
        SPARSMITH_RETURN_IF_ERROR(set_weight(buckets_[i]));
        SPARSMITH_RETURN_IF_ERROR(session_->set_tokens(buckets_[i].tokens, run_.options.seed));
      }
      MeasurementLog log = log_for(buckets_[i]);
      for (; trial != nullptr; trial = unverified_choice(buckets_[i])) {
        SPARSMITH_RETURN_IF_ERROR(place(buckets_[i], *trial));
        if (trial->state == Trial::State::kWaiting) {
          if (progress_) progress_("verify", 0, 1);
          SPARSMITH_RETURN_IF_ERROR(verify_predicted(*run_.kernels, run_.device, session_, log, *trial));
        }
        rejected |= trial->state == Trial::State::kRejected;
      }
    }
  }
  return {};
}

// Has the kernels of all choices compiled side by side.
void WeightSearch::request_choices() {
  if (run_.kernels->nvrtc_version().empty()) return;
  std::vector<const Candidate*> chosen;
  for (Bucket& bucket : buckets_)
    if (const Trial* const trial = unverified_choice(bucket)) chosen.push_back(&trial->candidate);
  run_.kernels->request(chosen);
}

// Puts the trial's packing on the device; rejects the trial where the packing does not fit.
Status WeightSearch::place(const Bucket& bucket, Trial& trial) {
  if (session_ != nullptr && session_->has_packing(trial.identity.packing)) return {};
  const auto packed = packings_.get(trial.candidate.config, {bucket.spec, bucket.tokens, run_.device});
  Status placed = packed.status();
  if (packed.ok() && session_ != nullptr) placed = session_->add_packing(**packed);
  if (placed.ok()) return {};
  if (session_ != nullptr) SPARSMITH_RETURN_IF_ERROR(session_->health());
  trial.reject_unseen(placed);
  return {};
}

// An unverified trial that predictions choose for the bucket; null: there is none.
Trial* WeightSearch::unverified_choice(Bucket& bucket) {
  std::vector<BucketTimes> times;
  for (const Bucket& each : buckets_) times.push_back(times_of(each, true));
  std::vector<std::vector<std::string>> ways = {kept_packings(times, false)};
  if (run_.options.model_bytes > 0) {
    for (std::vector<std::string>& way : ways_to_keep(times, packings_.sizes(), weight_.dense_bytes()))
      ways.push_back(std::move(way));
  }
  for (const std::vector<std::string>& kept : ways) {
    const auto winner = choose_trial(bucket.trials, kept, /*beside_baseline=*/true, /*predicted=*/true);
    if (winner && winner->trial->state == Trial::State::kWaiting)
      return &bucket.trials[static_cast<std::size_t>(winner->trial - bucket.trials.data())];
  }
  return nullptr;
}

// The packings that the choices may read. Choices kept from an earlier run read all of theirs.
std::vector<std::string> WeightSearch::kept_packings(const std::vector<BucketTimes>& times, bool keep) {
  too_large_ = false;
  const std::int64_t most =
      run_.options.train
          ? training_room(weight_)
          : static_cast<std::int64_t>(run_.options.most_memory() * static_cast<double>(weight_.dense_bytes()));
  const std::map<std::string, std::int64_t> bytes = packings_.sizes(run_.options.train);
  if (!keep) {
    std::vector<std::string> kept = choose_packings(times, bytes, most);
    if (!kept.empty()) return kept;
    const std::int64_t least = least_bytes(times, bytes);
    too_large_ = true;
    if (least > 0) return choose_packings(times, bytes, least);
  }
  std::set<std::string> all;
  for (const BucketTimes& each : times)
    for (const auto& [packing, us] : each.best_us) all.insert(packing);
  return {all.begin(), all.end()};
}

// A trial that met a fault of the machine each time might have won: the next run searches again.
Status WeightSearch::leave_unjudged_open() {
  SPARSMITH_RETURN_IF_ERROR(run_.kernels->health_of_all());
  for (Bucket& bucket : buckets_) {
    const auto unjudged = std::ranges::find(bucket.trials, true, &Trial::unjudged);
    if (unjudged == bucket.trials.end()) continue;
    bucket.complete = false;
    counts_.unjudged += std::ranges::count(bucket.trials, true, &Trial::unjudged);
    const bool any_timed = std::ranges::any_of(
        bucket.trials, [](const Trial& trial) { return trial.state == Trial::State::kTimed && !trial.baseline; });
    if (!any_timed)
      return io_error(
          fmt::format("N = {}: no candidate passed, and some were not judged: {}", bucket.tokens, unjudged->reason));
  }
  return {};
}

Status WeightSearch::choose() {
  SPARSMITH_RETURN_IF_ERROR(leave_unjudged_open());
  // Kept choices are not compared again, not even with dense: the run asks for their present times.
  const bool keep = known_ && run_.options.keep_choices;
  std::vector<BucketTimes> times;
  for (const Bucket& bucket : buckets_) times.push_back(times_of(bucket, predict_));
  const std::vector<std::string> kept = kept_packings(times, keep);
  for (const Bucket& bucket : buckets_) {
    const SearchedOperator& op = operator_of(bucket);
    for (const Trial& trial : bucket.trials) {
      if (trial.state == Trial::State::kRejected) ++counts_.rejected[rejection_class(trial.status, trial.reason)];
    }
    const bool kept_choice = keep && std::ranges::any_of(bucket.trials, [](const Trial& trial) {
                               return trial.incumbent && trial.state == Trial::State::kTimed;
                             });
    auto winner = choose_trial(bucket.trials, kept, /*beside_baseline=*/!kept_choice, predict_);
    if (!winner) return unsupported(nothing_passes(bucket));
    if (kept_choice) winner->reason = "an earlier choice that was to be kept";
    weight_.buckets.push_back(
        bucket_choice(bucket, *winner, predict_, match_quality_name(op.cached->quality(bucket.tokens))));
    const auto families = op.cached->families_of_choice(bucket.tokens);
    // What nothing has run is not remembered: a later run would take it for verified.
    if (run_.options.model_bytes == 0 && !too_large_ && families && session_ != nullptr)
      store_choice(run_, goal_, weight_, weight_.buckets.back(), *families);
  }
  if (!keep) {
    weight_.alternatives =
        alternatives_of(run_.options, weight_, buckets_, kept, packings_.sizes(run_.options.train), predict_);
  }
  return {};
}

}  // namespace sparsmith
