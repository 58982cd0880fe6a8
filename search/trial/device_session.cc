#include "search/trial/device_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/stopwatch.h"
#include "tuner/process/environment_fault.h"

namespace sparsmith {
namespace {

// Before another worker is started where one did not come up.
constexpr std::chrono::milliseconds kPause{100};

// What a candidate's call may take, over what one of its runs may. Nearly all of it is there for the host's work, on a
// machine that has other things to do.
constexpr int kLimitOverRuns = 10;

Result<Verification> verify_within(std::chrono::milliseconds limit, Worker& worker,
                                   const CompiledCandidate& candidate) {
  return worker.call(VerifyCall{candidate, limit.count() / kLimitOverRuns}, limit);
}

StatusCode code_of(const Status& status) { return status.code(); }
template <class T>
StatusCode code_of(const Result<T>& result) {
  return result.status().code();
}

}  // namespace

Result<DeviceSession> DeviceSession::open(WorkerFactory factory) {
  DeviceSession session(std::move(factory));
  SPARSMITH_RETURN_IF_ERROR(session.revive());
  session.properties_ = session.worker_->properties();
  session.turn_ = DeviceTurn(session.properties_.pci_address);
  return session;
}

Status DeviceSession::revive() {
  if (worker_ || ended_) return health_;
  for (int attempt = 1;; ++attempt) {
    auto started = factory_();
    health_ = started.status();
    if (started.ok()) {
      worker_ = std::move(*started);
      ++restarts_;
      health_ = restore();
    }
    if (health_.ok()) return health_;
    worker_.reset();
    // A program or a device that is missing does not come back.
    if (health_.code() == StatusCode::kNoDevice || attempt == kEnvironmentAttempts) return health_;
    log_debug("a worker is started once more: {}", health_.message());
    std::this_thread::sleep_for(kPause * attempt);
  }
}

Status DeviceSession::restore() {
  if (matrix_ != nullptr) SPARSMITH_RETURN_IF_ERROR(worker_->set_weight(*matrix_, spec_));
  for (const PackedWeight* packed : packings_) SPARSMITH_RETURN_IF_ERROR(worker_->add_packing(*packed));
  if (tokens_) SPARSMITH_RETURN_IF_ERROR(worker_->call(TokensCall{tokens_->count, tokens_->seed}));
  return {};
}

// A device error may mean that the process died or that its context is broken: either way it is thrown away. So is a
// process that met a fault of the machine.
template <class Call>
auto DeviceSession::guarded(double& seconds, const Call& call, Uses uses) -> decltype(call(std::declval<Worker&>())) {
  std::optional<DeviceTurn::Hold> hold;
  if (uses == Uses::kDevice || worker_ == nullptr) {
    hold.emplace(turn_);
    if (!hold->status().ok()) return end(hold->status());
  }
  const Stopwatch stopwatch(seconds);
  SPARSMITH_RETURN_IF_ERROR(revive());
  auto result = call(*worker_);
  const StatusCode code = code_of(result);
  if (code == StatusCode::kDeviceError || code == StatusCode::kIoError) worker_.reset();
  return result;
}

// For calls that belong to no candidate: a worker that dies under one may have been hurt before it.
Status DeviceSession::with_retry(Uses uses, double& seconds, const std::function<Status(Worker&)>& call) {
  Status status = guarded(seconds, call, uses);
  for (int attempt = 2; attempt <= kEnvironmentAttempts && health_.ok(); ++attempt) {
    const bool again = is_environment_fault(status) || (status.code() == StatusCode::kDeviceError && attempt == 2);
    if (!again) return status;
    log_debug("the worker is started again: {}", status.message());
    status = guarded(seconds, call, uses);
  }
  return is_environment_fault(status) ? end(status) : status;
}

template <class Call>
auto DeviceSession::judged(double& seconds, const Call& call) -> decltype(call(std::declval<Worker&>())) {
  for (int attempt = 1;; ++attempt) {
    auto result = guarded(seconds, call);
    if (result.ok() || !health_.ok()) return result;
    SPARSMITH_RETURN_IF_ERROR(check_known_good());
    if (!is_environment_fault(result.status()) || attempt == kEnvironmentAttempts) return result;
    log_debug("a candidate is tried once more: {}", result.status().message());
  }
}

Status DeviceSession::check_known_good() {
  Status checked;
  for (int attempt = 1; attempt <= kEnvironmentAttempts; ++attempt) {
    double seconds = 0;
    checked = guarded(seconds, [](Worker& worker) { return worker.check_known_good(); });
    if (checked.ok()) return {};
    worker_.reset();  // a fresh one may
  }
  return end({is_environment_fault(checked) ? checked.code() : StatusCode::kIoError,
              fmt::format("the machine is at fault, not a candidate: {}; see to free space in $TMPDIR, memory{}, then "
                          "run the same command again",
                          checked.message(),
                          properties_.is_emulator
                              ? " and the C++ compiler of the emulator (install g++, or name a compiler in $CXX)"
                              : ", the driver and the compiler")});
}

Status DeviceSession::end(const Status& reason) {
  worker_.reset();
  ended_ = true;
  if (health_.ok()) health_ = reason;
  return health_;
}

Result<DeviceSpeeds> DeviceSession::measure_speeds() {
  return guarded(seconds_.timing, [](Worker& worker) { return worker.measure_speeds(); });
}

void DeviceSession::Seconds::add(const Seconds& other) {
  sending += other.sending;
  reference += other.reference;
  verifying += other.verifying;
  timing += other.timing;
  libraries += other.libraries;
  waiting += other.waiting;
}

Status DeviceSession::set_weight(const CsrMatrix& matrix, const OperatorSpec& spec) {
  matrix_ = nullptr;  // a worker that is started on the way must not be given the old one
  packings_.clear();
  tokens_.reset();
  SPARSMITH_RETURN_IF_ERROR(
      with_retry(Uses::kWorker, seconds_.sending, [&](Worker& worker) { return worker.set_weight(matrix, spec); }));
  matrix_ = &matrix;
  spec_ = spec;
  return {};
}

Status DeviceSession::add_packing(const PackedWeight& packed) {
  SPARSMITH_RETURN_IF_ERROR(
      with_retry(Uses::kWorker, seconds_.sending, [&](Worker& worker) { return worker.call(PackingCall{packed}); }));
  Status placed =
      guarded(seconds_.sending, [&](Worker& worker) { return worker.call(PlacePackingCall{packed.packing}); });
  if (placed.code() == StatusCode::kDeviceError || is_environment_fault(placed)) {
    log_debug("the worker is started again: {}", placed.message());  // it has not been sent anything
    placed = with_retry(Uses::kDevice, seconds_.sending, [&](Worker& worker) { return worker.add_packing(packed); });
  }
  SPARSMITH_RETURN_IF_ERROR(placed);
  packings_.push_back(&packed);
  return {};
}

Status DeviceSession::drop_packing(const std::string& name) {
  const auto dropped = std::erase_if(packings_, [&](const PackedWeight* packed) { return packed->packing == name; });
  if (dropped == 0) return {};
  return with_retry(Uses::kDevice, seconds_.sending,
                    [&](Worker& worker) { return worker.call(DropPackingCall{name}); });
}

bool DeviceSession::has_packing(const std::string& name) const {
  return std::ranges::any_of(packings_, [&](const PackedWeight* packed) { return packed->packing == name; });
}

Status DeviceSession::set_tokens(std::int64_t tokens, std::uint64_t seed) {
  limit_candidates(Worker::kNoLimit);
  if (worker_ != nullptr && tokens_ == Tokens{tokens, seed}) return {};
  tokens_.reset();
  ++switches_;
  SPARSMITH_RETURN_IF_ERROR(with_retry(Uses::kDevice, seconds_.reference,
                                       [&](Worker& worker) { return worker.call(TokensCall{tokens, seed}); }));
  tokens_ = {tokens, seed};
  return {};
}

Result<Verification> DeviceSession::verify(const CompiledCandidate& candidate) {
  return judged(seconds_.verifying, [&](Worker& worker) { return verify_within(candidate_limit_, worker, candidate); });
}

Result<Timing> DeviceSession::time(const CompiledCandidate& candidate, const TimingPolicy& policy) {
  const int verified_in = epoch();
  return judged(seconds_.timing, [&](Worker& worker) -> Result<Timing> {
    if (epoch() != verified_in) {  // another worker, which times only what it has verified
      SPARSMITH_ASSIGN_OR_RETURN(const Verification verification, verify_within(candidate_limit_, worker, candidate));
      if (!verification.ok) return internal_error("it passed once, and not again: " + verification.reason);
    }
    SPARSMITH_ASSIGN_OR_RETURN(std::vector<Timing> timings,
                               worker.call(TimeCall{{candidate}, {}, policy}, candidate_limit_));
    return std::move(timings.front());
  });
}

Result<std::vector<Timing>> DeviceSession::time_interleaved(const std::vector<CompiledCandidate>& candidates,
                                                            const std::vector<std::string>& vendors,
                                                            const TimingPolicy& policy) {
  return guarded(seconds_.timing, [&](Worker& worker) { return worker.call(TimeCall{candidates, vendors, policy}); });
}

Result<std::vector<Timing>> DeviceSession::time_unverified(const std::vector<CompiledCandidate>& candidates,
                                                           const TimingPolicy& policy) {
  return guarded(seconds_.timing,
                 [&](Worker& worker) { return worker.call(TimeCall{candidates, {}, policy, /*unverified=*/true}); });
}

std::vector<VendorTiming> DeviceSession::vendors(const std::vector<std::string>& names, const TimingPolicy& policy) {
  constexpr int kNever = -1;
  std::vector<VendorTiming> vendors(names.size());
  std::vector<int> measured_in(names.size(), kNever);  // an epoch
  std::vector<std::vector<std::string>> slower(names.size());
  bool again = false;
  do {
    again = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool is_lost = vendors[i].supported && (worker_ == nullptr || measured_in[i] != epoch());
      if (measured_in[i] != kNever && !is_lost) continue;
      again = true;
      auto measured = vendor(names[i], policy, slower[i]);
      measured_in[i] = epoch();
      if (measured.ok() && !measured->broke.empty()) {
        worker_.reset();
        broken_[names[i]].push_back(measured->broke);
        std::ranges::move(measured->slower, std::back_inserter(slower[i]));
        measured_in[i] = kNever;
      }
      if (measured.ok()) {
        vendors[i] = *std::move(measured);
      } else {
        vendors[i].supported = false;
        vendors[i].detail = measured.status().message();
      }
      vendors[i].name = names[i];
    }
  } while (again && health_.ok());
  return vendors;
}

Result<VendorTiming> DeviceSession::vendor(const std::string& name, const TimingPolicy& policy,
                                           const std::vector<std::string>& slower) {
  constexpr std::size_t kMostBroken = 31;
  constexpr std::chrono::seconds kLimit{60};  // some algorithms of some libraries hang
  if (const auto lost = lost_.find(name); lost != lost_.end()) return lost->second;
  const std::vector<std::string>& broken = broken_[name];
  if (broken.size() > kMostBroken)
    return unsupported(
        fmt::format("{} of its algorithms broke the GPU's context, the last {}", broken.size(), broken.back()));
  std::vector<std::string> without = broken;
  without.insert(without.end(), slower.begin(), slower.end());
  auto measured = judged(seconds_.libraries,
                         [&](Worker& worker) { return worker.call(VendorCall{name, policy, without}, kLimit); });
  if (measured.status().code() == StatusCode::kDeviceError) lost_[name] = measured.status();
  // Without it nobody knows what dense takes.
  if (!measured.ok() && is_environment_fault(measured.status())) return end(measured.status());
  if (measured.ok() && measured->broke.empty() && !broken.empty())
    measured->detail += fmt::format("; left out, since they break the GPU's context: {}", fmt::join(broken, "; "));
  return measured;
}

}  // namespace sparsmith
