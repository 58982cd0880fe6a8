#include "search/bucket_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/log.h"
#include "base/stopwatch.h"
#include "generator/families/dense/dense_family.h"
#include "generator/family.h"

namespace sparsmith {
namespace {

using State = Trial::State;

// A candidate is too slow if its launches take kTooSlow times the best candidate's and kSubmissionUs longer. Short
// kernels that are launched one by one seem to take the time of their submission.
constexpr double kTooSlow = 4;
constexpr double kSubmissionUs = 200;
constexpr double kNearlyAsFast = 1.03;  // as the best of the library's algorithms
// Limit of a candidate's call on a GPU: these seconds, and this many launches of the best candidate. Most of the time
// is the host's work, on a machine with other load.
constexpr double kPatienceSeconds = 20;
constexpr double kLaunchesOfACall = 20'000;

void finish(MeasurementLog& log, const Trial& trial) {
  log.finish(trial.status, trial.reason, trial.timing, trial.verification.max_error_over_bound, trial.unjudged);
}

void enter(Trial& trial, Timing timing) {
  trial.timing = std::move(timing);
  trial.final_us = trial.timing.samples_us;
  trial.in_final = true;
  trial.recalled = false;
}

void record(MeasurementLog& log, const VendorTiming& vendor) {
  CandidateIdentity library;
  library.config = "vendor:" + vendor.name;
  log.begin(library);
  log.finish(vendor.supported ? MeasurementStatus::kOk : MeasurementStatus::kFailed, vendor.detail, vendor.timing,
             vendor.verification.max_error_over_bound);
}

// False when it was rejected.
bool verify(DeviceSession& session, Trial& trial) {
  auto verification = timed(trial.seconds.verify, [&] { return session.verify(trial.loaded); });
  if (!verification.ok()) {
    trial.reject(verification.status());
    return false;
  }
  trial.verification = std::move(*verification);
  if (!trial.verification.ok) {
    trial.reject(MeasurementStatus::kWrong, trial.verification.reason);
    return false;
  }
  trial.verified_in = session.epoch();
  return true;
}

}  // namespace

BucketSearch::BucketSearch(const TuneRun& run, Bucket& bucket, MeasurementLog log, PreparedSignal& signal, Hooks hooks)
    : run_(run),
      bucket_(bucket),
      trials_(*bucket.search),
      log_(std::move(log)),
      signal_(signal),
      hooks_(std::move(hooks)),
      strategy_(make_strategy(run.options.strategy, trials_.points())),
      rounds_(*strategy_, trials_.points(),
              {.most_candidates = races() ? SearchEnd().most_candidates : run.options.most_candidates,
               .out_of_time = [this] { return run_.interrupted() || hooks_.out_of_time(); }}) {}

std::vector<std::size_t> BucketSearch::requested() const {
  std::vector<std::size_t> points;
  for (const TrialRequest& request : rounds_.batch()) points.push_back(request.point);
  return points;
}

void BucketSearch::prepare_first() {
  if (rounds_.propose()) {
    // The race asks for all that was selected, in two batches.
    trials_.make(races() ? trials_.points().selected : requested());
    trials_.add_candidates(first_);
    run_.kernels->request(first_);
  }
  compile(KernelStore::Urgency::kSoon);
}

void BucketSearch::compile(KernelStore::Urgency urgency) {
  prepared_ = false;
  preparation_ = std::async(std::launch::async, [this, urgency] {
    const Status status = prepare(urgency);
    prepared_ = true;  // in any case: a device waits for it
    signal_.raise();
    return status;
  });
}

Status BucketSearch::prepare(KernelStore::Urgency urgency) {
  try {
    const std::vector<std::size_t> points = requested();
    trials_.make(points);
    trials_.compile(points, urgency, [this](std::size_t done, std::size_t total) {
      if (hooks_.progress) hooks_.progress("compile", done, total);
    });
    return run_.kernels->health();
  } catch (const std::exception& error) {
    return io_error(fmt::format("candidates for N = {} cannot be prepared: {}", bucket_.tokens, error.what()));
  }
}

void BucketSearch::hurry() {
  run_.kernels->hurry(first_);
  first_.clear();
}

Result<bool> BucketSearch::advance(DeviceSession& session) {
  SPARSMITH_RETURN_IF_ERROR(preparation_.get());
  session_ = &session;
  double seconds = 0;
  const Status tried = timed(seconds, [&]() -> Status {
    SPARSMITH_RETURN_IF_ERROR(session.set_tokens(bucket_.tokens, run_.options.seed));
    limit_candidates();
    SPARSMITH_RETURN_IF_ERROR(trials_.load(session, requested()));
    return rounds_.attempt(*this);
  });
  if (!tried.ok()) return tried;
  log_debug("N = {}: {} candidates tried in {:.2f} s", bucket_.tokens, requested().size(), seconds);
  if (rounds_.propose()) {
    compile(KernelStore::Urgency::kNow);
    return false;
  }
  SPARSMITH_RETURN_IF_ERROR(final());
  return true;
}

// How many a race will try beyond the selected candidates is not known.
void BucketSearch::tell() const {
  if (!hooks_.progress) return;
  const SearchPoints& points = trials_.points();
  const std::size_t most = run_.options.most_candidates;
  const std::size_t total =
      races() ? std::max(tried_.size(), points.selected.size()) : std::min(points.points.size(), most);
  hooks_.progress(fmt::format("N = {}", bucket_.tokens), std::min(tried_.size(), total), total);
}

// Rejected before it ran, or in an earlier run; or timed in one.
bool BucketSearch::known(const TrialRequest& request) {
  Trial* const trial = trials_.find(request.point);
  return trial == nullptr || trial->state == State::kRejected || (trial->state == State::kWaiting && recall(*trial));
}

Result<TrialOutcome> BucketSearch::attempt(const TrialRequest& request) {
  tell();
  Trial* const trial = trials_.find(request.point);
  if (trial == nullptr) return TrialOutcome{request.point, false, 0};
  if (tried_.insert(request.point).second) {
    reject_outdone(*trial);
    SPARSMITH_RETURN_IF_ERROR(first_turn(*trial, request.replays));
  } else if (trial->state == State::kTimed) {
    sample(*trial, policy(request.replays));
    SPARSMITH_RETURN_IF_ERROR(session_->health());
  }
  return TrialOutcome{request.point, trial->state == State::kTimed, trial->timing.median_us};
}

void BucketSearch::limit_candidates() {
  if (best_us_ <= 0 || run_.record || session_->properties().is_emulator) return;
  const double seconds = kPatienceSeconds + kLaunchesOfACall * best_us_ * 1e-6;
  session_->limit_candidates(std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3)));
}

// The limit of a trial. Incumbents, which stay until the final, and the baseline, whose time is always reported, have
// no limit.
double BucketSearch::limit_us(const Trial& trial) const {
  if (run_.record || trial.incumbent || trial.baseline || best_us_ <= 0) return 0;
  return std::max(kTooSlow * best_us_, best_us_ + kSubmissionUs);
}

TimingPolicy BucketSearch::policy(int replays) const {
  TimingPolicy shorter = run_.options.timing;
  shorter.min_replays = std::min(replays, shorter.min_replays);
  shorter.max_milliseconds *= static_cast<double>(shorter.min_replays) / std::max(1, run_.options.timing.min_replays);
  return shorter;
}

// A candidate that leaves the product to the library is not tried with an algorithm that was slower for dense.
void BucketSearch::reject_outdone(Trial& trial) const {
  if (trial.state != State::kWaiting || trial.baseline || trial.incumbent || run_.record) return;
  if (!family(trial.candidate.config.family)->by_library) return;
  double best_us = 0;
  double same_us = 0;
  for (const std::size_t point : tried_) {
    const Trial* const other = trials_.find(point);
    if (other == nullptr || !other->baseline || other->state != State::kTimed) continue;
    const double us = other->timing.median_us;
    if (best_us <= 0 || us < best_us) best_us = us;
    if (proposal_of(other->candidate.config) == proposal_of(trial.candidate.config)) same_us = us;
  }
  if (best_us <= 0 || (same_us > 0 && same_us <= kNearlyAsFast * best_us)) return;
  trial.reject(MeasurementStatus::kTooSlow,
               same_us > 0 ? fmt::format("too slow: dense takes {:.1f} us with this algorithm, {:.1f} us with another",
                                         same_us, best_us)
                           : "too slow: dense was not timed with this algorithm, but with others");
}

// Earlier results count; the others get a few samples.
Status BucketSearch::first_turn(Trial& trial, int replays) {
  if (trial.state == State::kWaiting && recall(trial)) return {};
  // Of earlier rejections, only failures to compile go to the log.
  if (trial.state == State::kTimed) return {};
  if (trial.state == State::kRejected && trial.status != MeasurementStatus::kFailed) return {};
  log_.begin(trial.identity);
  if (trial.state == State::kWaiting) sample(trial, policy(replays));
  SPARSMITH_RETURN_IF_ERROR(session_->health());
  finish(log_, trial);
  return {};
}

bool BucketSearch::recall(Trial& trial) const {
  // The code of a library's product is another one with the next version.
  if (run_.record || trial.candidate.plan.has_matmul()) return false;
  const auto known = log_.find(trial.identity);
  if (!known) return false;
  if (known->status != MeasurementStatus::kOk || known->median_us <= 0) {
    trial.reject(known->status, known->reason + " (in an earlier run)");
    trial.unjudged = known->abandoned;
    return true;
  }
  trial.recalled = true;
  trial.state = State::kTimed;
  trial.status = MeasurementStatus::kOk;
  trial.timing.median_us = known->median_us;
  trial.timing.q1_us = known->q1_us;
  trial.timing.q3_us = known->q3_us;
  trial.timing.copies = known->copies;
  trial.timing.warm = known->warm;
  trial.verification.ok = true;
  trial.verification.max_error_over_bound = known->max_error_over_bound;
  return true;
}

void BucketSearch::sample(Trial& trial, TimingPolicy policy) {
  // A trial that passed on this weight in this session passes again.
  const bool verified = trial.verification.ok && trial.verified_in == session_->epoch();
  if (!verified && !verify(*session_, trial)) return;
  policy.limit_us = limit_us(trial);
  auto timing = timed(trial.seconds.time, [&] { return session_->time(trial.loaded, policy); });
  if (!timing.ok()) return trial.reject(timing.status());
  trial.timing = std::move(*timing);
  if (trial.timing.too_slow) {
    return trial.reject(MeasurementStatus::kTooSlow, fmt::format("too slow: {:.0f} us where the best takes {:.1f} us",
                                                                 trial.timing.median_us, best_us_));
  }
  trial.state = State::kTimed;
  trial.status = MeasurementStatus::kOk;
  if (best_us_ <= 0 || trial.timing.median_us < best_us_) {
    best_us_ = trial.timing.median_us;
    limit_candidates();
  }
  const std::vector<float>& samples = trial.timing.samples_us;
  trial.samples_us.insert(trial.samples_us.end(), samples.begin(), samples.end());
  trial.recalled = false;
}

std::vector<std::size_t> BucketSearch::finalists() {
  std::vector<TimedPoint> timed;
  for (const std::size_t point : tried_) {
    const Trial* trial = trials_.find(point);
    if (trial != nullptr && trial->state == State::kTimed) timed.push_back({point, trial->timing.median_us});
  }
  return fastest_points(trials_.points(), std::move(timed), kFinalists);
}

Status BucketSearch::final() {
  limit_candidates();
  bucket_.vendors = session_->vendors(run_.options.vendors, run_.options.timing);
  for (const VendorTiming& vendor : bucket_.vendors) record(log_, vendor);
  SPARSMITH_RETURN_IF_ERROR(session_->health());
  SPARSMITH_RETURN_IF_ERROR(interleave_best());
  bucket_.complete = rounds_.complete();
  return session_->health();
}

Status BucketSearch::interleave_best() {
  const std::vector<std::size_t> points = finalists();
  SPARSMITH_RETURN_IF_ERROR(trials_.load(*session_, points));
  std::vector<Trial*> finalists;
  for (const std::size_t point : points) finalists.push_back(trials_.find(point));
  for (Trial* trial : finalists) {
    if (trial->state == State::kTimed && trial->verified_in != session_->epoch()) verify(*session_, *trial);
  }
  std::erase_if(finalists, [](const Trial* trial) { return trial->state != State::kTimed; });
  if (finalists.empty()) return {};

  std::vector<CompiledCandidate> loaded;
  for (const Trial* trial : finalists) loaded.push_back(trial->loaded);
  std::vector<std::string> names;
  for (const VendorTiming& vendor : bucket_.vendors) {
    if (vendor.supported) names.push_back(vendor.name);
  }
  auto timings = session_->time_interleaved(loaded, names, run_.options.timing);
  if (!timings.ok() || timings->size() != loaded.size() + names.size()) {
    alone(finalists);
    time_products(finalists);
    return {};
  }
  for (std::size_t i = 0; i < finalists.size(); ++i) enter(*finalists[i], std::move((*timings)[i]));
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (VendorTiming& vendor : bucket_.vendors) {
      if (vendor.name == names[i]) vendor.timing = std::move((*timings)[loaded.size() + i]);
    }
  }
  time_products(finalists);
  return {};
}

// What a dense layer takes beside baselines that gather.
void BucketSearch::time_products(const std::vector<Trial*>& finalists) {
  std::vector<Trial*> trials;
  std::vector<CompiledCandidate> products;
  for (Trial* trial : finalists) {
    if (!session_->health().ok() || trial->state != State::kTimed || !gathers(trial->candidate)) continue;
    trials.push_back(trial);
    products.push_back(product_of(trial->loaded));
  }
  if (trials.empty()) return;
  auto timings = session_->time_unverified(products, run_.options.timing);
  if (!timings.ok() || timings->size() != trials.size()) {
    log_warning("N = {}: dense gradients are not timed: {}", bucket_.tokens, timings.status().message());
    return;
  }
  for (std::size_t i = 0; i < trials.size(); ++i) trials[i]->product = std::move((*timings)[i]);
}

// One of the finalists took the worker down: each runs by itself, so that it is known which.
void BucketSearch::alone(const std::vector<Trial*>& finalists) {
  for (Trial* trial : finalists) {
    log_.begin(trial->identity);
    sample(*trial, run_.options.timing);
    if (!session_->health().ok()) return;
    if (trial->state == State::kTimed) trial->in_final = true;
    finish(log_, *trial);
  }
}

Status verify_predicted(KernelStore& kernels, const DeviceProperties& device, DeviceSession* session,
                        MeasurementLog& log, Trial& trial) {
  if (session != nullptr) log.begin(trial.identity);
  if (!kernels.nvrtc_version().empty()) {
    const Candidate* candidate = &trial.candidate;
    kernels.ensure({&candidate, 1}, KernelStore::Urgency::kNow);
    attach_binaries(kernels, device, trial);
  }
  const bool ok = trial.state != State::kRejected && (session == nullptr || verify(*session, trial));
  SPARSMITH_RETURN_IF_ERROR(kernels.health());
  if (session != nullptr) SPARSMITH_RETURN_IF_ERROR(session->health());
  if (ok) {
    trial.state = State::kTimed;
    trial.status = MeasurementStatus::kOk;
    trial.timing.median_us = trial.timing.q1_us = trial.timing.q3_us = trial.candidate.predicted_us;
  }
  if (session != nullptr) finish(log, trial);
  return {};
}

}  // namespace sparsmith
