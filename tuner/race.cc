#include "tuner/race.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"

namespace sparsmith {
namespace {

using State = Contender::State;

MeasurementStatus kind_of(const Status& error) {
  if (error.code() != StatusCode::kDeviceError) return MeasurementStatus::kFailed;
  // The worker says which of the two it was; nothing but the record depends on the word.
  return error.message().find("gave no answer") != std::string::npos ? MeasurementStatus::kTimeout
                                                                     : MeasurementStatus::kCrashed;
}

void reject(Contender& contender, MeasurementStatus status, std::string reason) {
  if (status == MeasurementStatus::kCrashed || status == MeasurementStatus::kTimeout)
    log_debug("left out: {} ({}): {}", contender.identity.config, contender.identity.packing, reason);
  contender.state = State::kRejected;
  contender.status = status;
  contender.reason = std::move(reason);
}

class Race {
 public:
  Race(DeviceSession& session, MeasurementLog& log, std::vector<Contender>& contenders,
       std::vector<VendorTiming>& vendors, const RaceOptions& options)
      : session_(session), log_(log), contenders_(contenders), vendors_(vendors), options_(options) {}

  Result<bool> run() {
    vendors_measured_in_ = session_.restarts();
    SPARSMITH_ASSIGN_OR_RETURN(const bool complete, heats());
    longer();
    final();
    SPARSMITH_RETURN_IF_ERROR(session_.health());
    return complete;
  }

 private:
  TimingPolicy policy(int replays) const {
    TimingPolicy shorter = options_.policy;
    shorter.min_replays = std::min(replays, shorter.min_replays);
    shorter.max_milliseconds *= static_cast<double>(shorter.min_replays) / std::max(1, options_.policy.min_replays);
    return shorter;
  }

  bool stopped() const { return options_.stop && options_.stop(); }

  // Everyone's turn: earlier results count, the rest get a few samples.
  Result<bool> heats() {
    bool any = false;
    std::size_t done = 0;
    for (Contender& contender : contenders_) {
      if (options_.progress) options_.progress(done++, contenders_.size());
      if (contender.state != State::kWaiting || recall(contender)) continue;
      if (any && stopped()) return false;
      any |= !contender.dense;
      log_.begin(contender.identity);
      sample(contender, policy(options_.short_replays));
      SPARSMITH_RETURN_IF_ERROR(session_.health());
      log_.finish(contender.status, contender.reason, contender.timing, contender.verification.max_error_over_bound);
    }
    return true;
  }

  bool recall(Contender& contender) const {
    const auto known = log_.find(contender.identity);
    if (!known) return false;
    if (known->status != MeasurementStatus::kOk || known->median_us <= 0) {
      reject(contender, known->status, known->reason + " (in an earlier run)");
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

  void sample(Contender& contender, const TimingPolicy& policy) {
    if (!verify_contender(session_, contender)) return;
    auto timing = session_.time(contender.loaded, policy);
    if (!timing.ok()) return reject(contender, kind_of(timing.status()), timing.status().message());
    contender.state = State::kTimed;
    contender.status = MeasurementStatus::kOk;
    contender.timing = std::move(*timing);
    contender.recalled = false;
  }

  // Those still in: within keep_within of the best, the best of each packing that is, incumbents and dense; fastest
  // first.
  std::vector<Contender*> standing(std::size_t limit) {
    std::vector<Contender*> timed;
    for (Contender& contender : contenders_) {
      if (contender.state == State::kTimed) timed.push_back(&contender);
    }
    std::stable_sort(timed.begin(), timed.end(),
                     [](const Contender* a, const Contender* b) { return a->timing.median_us < b->timing.median_us; });
    std::vector<Contender*> kept;
    std::set<std::string> packings;
    for (Contender* contender : timed) {
      const bool close = contender->timing.median_us <= options_.keep_within * timed.front()->timing.median_us;
      const bool first_of_packing = packings.insert(contender->identity.packing).second;
      if (contender->incumbent || contender->dense || (close && (kept.size() < limit || first_of_packing)))
        kept.push_back(contender);
    }
    return kept;
  }

  void longer() {
    for (Contender* contender : standing(2 * static_cast<std::size_t>(options_.finalists))) {
      if (stopped()) return;
      sample(*contender, policy(options_.longer_replays));
    }
  }

  void final() {
    std::vector<Contender*> finalists = standing(static_cast<std::size_t>(options_.finalists));
    for (Contender* contender : finalists) {
      if (contender->verified_in != session_.restarts()) verify_contender(session_, *contender);
    }
    std::erase_if(finalists, [](const Contender* contender) { return contender->state != State::kTimed; });
    if (finalists.empty()) return;

    std::vector<LoadedCandidate> loaded;
    for (const Contender* contender : finalists) loaded.push_back(contender->loaded);
    const std::vector<std::string> names = vendors_ready();
    auto timings = session_.time_interleaved(loaded, names, options_.policy);
    if (!timings.ok() || timings->size() != loaded.size() + names.size()) return alone(finalists);
    for (std::size_t i = 0; i < finalists.size(); ++i) enter(*finalists[i], std::move((*timings)[i]));
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (VendorTiming& vendor : vendors_) {
        if (vendor.name == names[i]) vendor.timing = std::move((*timings)[loaded.size() + i]);
      }
    }
  }

  static void enter(Contender& contender, Timing timing) {
    contender.timing = std::move(timing);
    contender.in_final = true;
    contender.recalled = false;
  }

  // One of the finalists took the worker down: each runs by itself, so that it is known which.
  void alone(const std::vector<Contender*>& finalists) {
    for (Contender* contender : finalists) {
      log_.begin(contender->identity);
      sample(*contender, options_.policy);
      if (contender->state == State::kTimed) contender->in_final = true;
      log_.finish(contender->status, contender->reason, contender->timing,
                  contender->verification.max_error_over_bound);
    }
  }

  // Names of the vendors that the present worker knows; those measured by one that has died are measured again.
  std::vector<std::string> vendors_ready() {
    std::vector<std::string> names;
    for (VendorTiming& vendor : vendors_) {
      if (!vendor.supported) continue;
      if (vendors_measured_in_ != session_.restarts()) {
        auto again = session_.vendor(vendor.name, options_.policy);
        if (!again.ok() || !again->supported) continue;
        vendor = std::move(*again);
      }
      names.push_back(vendor.name);
    }
    return names;
  }

  DeviceSession& session_;
  MeasurementLog& log_;
  std::vector<Contender>& contenders_;
  std::vector<VendorTiming>& vendors_;
  const RaceOptions& options_;
  int vendors_measured_in_ = 0;
};

}  // namespace

bool verify_contender(DeviceSession& session, Contender& contender) {
  auto verification = session.verify(contender.loaded);
  if (!verification.ok()) {
    reject(contender, kind_of(verification.status()), verification.status().message());
    return false;
  }
  contender.verification = std::move(*verification);
  if (!contender.verification.ok) {
    reject(contender, MeasurementStatus::kWrong, contender.verification.reason);
    return false;
  }
  contender.verified_in = session.restarts();
  return true;
}

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

Result<bool> run_race(DeviceSession& session, MeasurementLog& log, std::vector<Contender>& contenders,
                      std::vector<VendorTiming>& vendors, const RaceOptions& options) {
  return Race(session, log, contenders, vendors, options).run();
}

}  // namespace sparsmith
