#include "search/device_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/stopwatch.h"
#include "search/bucket.h"
#include "tuner/environment_fault.h"

namespace sparsmith {
namespace {

using State = Contender::State;

// A candidate is too slow where its launches take so many times the best's, and so much longer: launched one by one,
// short kernels seem to take as long as it takes to submit them.
constexpr double kTooSlow = 4;
constexpr double kSubmissionUs = 200;
// What no call of a candidate may take, on a GPU: most of it is the host's work, on a machine that has other things to
// do.
constexpr double kPatienceSeconds = 20;
constexpr double kLaunchesOfACall = 20'000;

MeasurementStatus kind_of(const Status& error) {
  if (error.code() != StatusCode::kDeviceError) return MeasurementStatus::kFailed;
  // The worker says which of the two it was; nothing but the record depends on the word.
  return error.message().find("gave no answer") != std::string::npos ? MeasurementStatus::kTimeout
                                                                     : MeasurementStatus::kCrashed;
}

std::string reason_of(const Status& error) {
  if (error.code() != StatusCode::kOutOfMemory) return error.message();
  return fmt::format("{}: {}", kOutOfDeviceMemory, error.message());
}

void finish(MeasurementLog& log, const Contender& contender) {
  log.finish(contender.status, contender.reason, contender.timing, contender.verification.max_error_over_bound,
             contender.unjudged);
}

void reject(Contender& contender, MeasurementStatus status, std::string reason) {
  if (status == MeasurementStatus::kCrashed || status == MeasurementStatus::kTimeout)
    log_debug("left out: {} ({}): {}", contender.identity.config, contender.identity.packing, reason);
  contender.state = State::kRejected;
  contender.status = status;
  contender.reason = std::move(reason);
}

void reject(Contender& contender, const Status& error) {
  reject(contender, kind_of(error), reason_of(error));
  contender.unjudged = is_environment_fault(error) || error.message().find(kTooLittleHostMemory) != std::string::npos;
}

void enter(Contender& contender, Timing timing) {
  contender.timing = std::move(timing);
  contender.final_us = contender.timing.samples_us;
  contender.in_final = true;
  contender.recalled = false;
}

// One that fails is unsupported, with the reason as detail.
std::vector<VendorTiming> measure_vendors(DeviceSession& session, MeasurementLog& log,
                                          const std::vector<std::string>& names, const TimingPolicy& policy) {
  std::vector<VendorTiming> vendors;
  for (const std::string& name : names) {
    CandidateIdentity library;
    library.config = "vendor:" + name;
    log.begin(library);
    auto timing = session.vendor(name, policy);
    VendorTiming vendor;
    if (timing.ok()) {
      vendor = std::move(*timing);
    } else {
      vendor.supported = false;
      vendor.detail = timing.status().message();
    }
    vendor.name = name;
    log.finish(vendor.supported ? MeasurementStatus::kOk : MeasurementStatus::kFailed, vendor.detail, vendor.timing,
               vendor.verification.max_error_over_bound);
    vendors.push_back(std::move(vendor));
  }
  return vendors;
}

}  // namespace

bool verify_contender(DeviceSession& session, Contender& contender) {
  auto verification = session.verify(contender.loaded);
  if (!verification.ok()) {
    reject(contender, verification.status());
    return false;
  }
  contender.verification = std::move(*verification);
  if (!contender.verification.ok) {
    reject(contender, MeasurementStatus::kWrong, contender.verification.reason);
    return false;
  }
  contender.verified_in = session.epoch();
  return true;
}

DeviceSearch::DeviceSearch(MeasurementLog& log, Contenders& contenders, Strategy& strategy, DeviceSearchOptions options)
    : log_(log),
      contenders_(contenders),
      options_(std::move(options)),
      run_(strategy, contenders.points(), options_.stop) {}

std::vector<std::size_t> DeviceSearch::proposed() const {
  std::vector<std::size_t> points;
  for (const Proposal& proposal : run_.batch()) points.push_back(proposal.point);
  return points;
}

Status DeviceSearch::attempt(DeviceSession& session) {
  session_ = &session;
  limit_candidates();
  SPARSMITH_RETURN_IF_ERROR(contenders_.load(proposed()));
  return run_.attempt(*this);
}

// Rejected before it ran, or in an earlier run; or timed in one.
bool DeviceSearch::known(const Proposal& proposal) {
  Contender* const contender = contenders_.find(proposal.point);
  return contender == nullptr || contender->state == State::kRejected ||
         (contender->state == State::kWaiting && recall(*contender));
}

Result<TrialOutcome> DeviceSearch::attempt(const Proposal& proposal) {
  if (options_.progress) options_.progress(tried_.size());
  Contender* const contender = contenders_.find(proposal.point);
  if (contender == nullptr) return TrialOutcome{proposal.point, false, 0};
  if (tried_.insert(proposal.point).second) {
    SPARSMITH_RETURN_IF_ERROR(first_turn(*contender, proposal.replays));
  } else if (contender->state == State::kTimed) {
    sample(*contender, policy(proposal.replays));
    SPARSMITH_RETURN_IF_ERROR(session_->health());
  }
  return TrialOutcome{proposal.point, contender->state == State::kTimed, contender->timing.median_us};
}

// Every time that is measured makes limits narrower.
void DeviceSearch::note_best(double us) {
  if (us <= 0 || (best_us_ > 0 && us >= best_us_)) return;
  best_us_ = us;
  limit_candidates();
}

void DeviceSearch::limit_candidates() {
  if (best_us_ <= 0 || !options_.limit || session_->properties().is_emulator) return;
  const double seconds = kPatienceSeconds + kLaunchesOfACall * best_us_ * 1e-6;
  session_->limit_candidates(std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3)));
}

// Of one contender; incumbents, which stay in to the final, have none. What the baseline takes is of interest however
// far ahead others are.
double DeviceSearch::limit_us(const Contender& contender) const {
  if (!options_.limit || contender.incumbent || contender.baseline || best_us_ <= 0) return 0;
  return std::max(kTooSlow * best_us_, best_us_ + kSubmissionUs);
}

TimingPolicy DeviceSearch::policy(int replays) const {
  TimingPolicy shorter = options_.policy;
  shorter.min_replays = std::min(replays, shorter.min_replays);
  shorter.max_milliseconds *= static_cast<double>(shorter.min_replays) / std::max(1, options_.policy.min_replays);
  return shorter;
}

// Earlier results count; the others get a few samples.
Status DeviceSearch::first_turn(Contender& contender, int replays) {
  if (contender.state == State::kWaiting && recall(contender)) return {};
  // Of what was rejected before, what could not be compiled is told to the log.
  if (contender.state == State::kTimed) return {};
  if (contender.state == State::kRejected && contender.status != MeasurementStatus::kFailed) return {};
  log_.begin(contender.identity);
  if (contender.state == State::kWaiting) sample(contender, policy(replays));
  SPARSMITH_RETURN_IF_ERROR(session_->health());
  finish(log_, contender);
  return {};
}

bool DeviceSearch::recall(Contender& contender) const {
  // The code of a library's product is another one with the next version.
  if (!options_.recall || contender.candidate.plan.has_matmul()) return false;
  const auto known = log_.find(contender.identity);
  if (!known) return false;
  if (known->status != MeasurementStatus::kOk || known->median_us <= 0) {
    reject(contender, known->status, known->reason + " (in an earlier run)");
    contender.unjudged = known->abandoned;
    return true;
  }
  contender.recalled = true;
  contender.state = State::kTimed;
  contender.status = MeasurementStatus::kOk;
  contender.timing.median_us = known->median_us;
  contender.timing.q1_us = known->q1_us;
  contender.timing.q3_us = known->q3_us;
  contender.timing.copies = known->copies;
  contender.timing.warm = known->warm;
  contender.verification.ok = true;
  contender.verification.max_error_over_bound = known->max_error_over_bound;
  return true;
}

void DeviceSearch::sample(Contender& contender, TimingPolicy policy) {
  // The same code on the same weight and device: what passed there once passes again.
  const bool verified = contender.verification.ok && contender.verified_in == session_->epoch();
  if (!verified && !verify(contender)) return;
  policy.limit_us = limit_us(contender);
  auto timing = [&] {
    const Stopwatch stopwatch(contender.seconds.time);
    return session_->time(contender.loaded, policy);
  }();
  if (!timing.ok()) return reject(contender, timing.status());
  contender.timing = std::move(*timing);
  if (contender.timing.too_slow) {
    return reject(
        contender, MeasurementStatus::kTooSlow,
        fmt::format("too slow: {:.0f} us where the best takes {:.1f} us", contender.timing.median_us, best_us_));
  }
  contender.state = State::kTimed;
  contender.status = MeasurementStatus::kOk;
  note_best(contender.timing.median_us);
  const std::vector<float>& samples = contender.timing.samples_us;
  contender.samples_us.insert(contender.samples_us.end(), samples.begin(), samples.end());
  contender.recalled = false;
}

bool DeviceSearch::verify(Contender& contender) {
  const Stopwatch stopwatch(contender.seconds.verify);
  return verify_contender(*session_, contender);
}

std::vector<std::size_t> DeviceSearch::standing() {
  std::vector<Standing> timed;
  for (const std::size_t point : tried_) {
    const Contender* contender = contenders_.find(point);
    if (contender != nullptr && contender->state == State::kTimed)
      timed.push_back({point, contender->timing.median_us});
  }
  return still_standing(contenders_.points(), std::move(timed), kFinalists);
}

Result<bool> DeviceSearch::final(DeviceSession& session, std::vector<VendorTiming>& vendors) {
  session_ = &session;
  limit_candidates();
  vendors = measure_vendors(session, log_, options_.vendors, options_.policy);
  SPARSMITH_RETURN_IF_ERROR(session.health());
  SPARSMITH_RETURN_IF_ERROR(interleave_best(vendors));
  SPARSMITH_RETURN_IF_ERROR(session.health());
  return run_.complete();
}

Status DeviceSearch::interleave_best(std::vector<VendorTiming>& vendors) {
  const std::vector<std::size_t> points = standing();
  SPARSMITH_RETURN_IF_ERROR(contenders_.load(points));
  std::vector<Contender*> finalists;
  for (const std::size_t point : points) finalists.push_back(contenders_.find(point));
  for (Contender* contender : finalists) {
    if (contender->state == State::kTimed && contender->verified_in != session_->epoch()) verify(*contender);
  }
  std::erase_if(finalists, [](const Contender* contender) { return contender->state != State::kTimed; });
  if (finalists.empty()) return {};

  std::vector<LoadedCandidate> loaded;
  for (const Contender* contender : finalists) loaded.push_back(contender->loaded);
  std::vector<std::string> names;
  for (const VendorTiming& vendor : vendors) {
    if (vendor.supported) names.push_back(vendor.name);
  }
  auto timings = session_->time_interleaved(loaded, names, options_.policy);
  if (!timings.ok() || timings->size() != loaded.size() + names.size()) {
    alone(finalists);
    return {};
  }
  for (std::size_t i = 0; i < finalists.size(); ++i) enter(*finalists[i], std::move((*timings)[i]));
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (VendorTiming& vendor : vendors) {
      if (vendor.name == names[i]) vendor.timing = std::move((*timings)[loaded.size() + i]);
    }
  }
  return {};
}

// One of the finalists took the worker down: each runs by itself, so that it is known which.
void DeviceSearch::alone(const std::vector<Contender*>& finalists) {
  for (Contender* contender : finalists) {
    log_.begin(contender->identity);
    sample(*contender, options_.policy);
    if (!session_->health().ok()) return;
    if (contender->state == State::kTimed) contender->in_final = true;
    finish(log_, *contender);
  }
}

}  // namespace sparsmith
