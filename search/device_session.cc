#include "search/device_session.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/stopwatch.h"

namespace sparsmith {
namespace {

Status send_and_place(Measurer& measurer, const PackedWeight& packed) {
  SPARSMITH_RETURN_IF_ERROR(measurer.send_packing(packed));
  return measurer.place_packing(packed.packing);
}

}  // namespace

Result<DeviceSession> DeviceSession::open(MeasurerFactory factory) {
  DeviceSession session(std::move(factory));
  SPARSMITH_RETURN_IF_ERROR(session.revive());
  session.properties_ = session.measurer_->properties();
  session.turn_ = DeviceTurn(session.properties_.pci_address);
  return session;
}

Status DeviceSession::revive() {
  if (measurer_) return {};
  auto started = factory_();
  if (started.ok()) {
    measurer_ = std::move(*started);
    ++restarts_;
    health_ = restore();
  } else {
    health_ = started.status();
  }
  if (!health_.ok()) measurer_.reset();
  return health_;
}

Status DeviceSession::restore() {
  if (matrix_ != nullptr) SPARSMITH_RETURN_IF_ERROR(measurer_->set_weight(*matrix_, spec_));
  for (const PackedWeight* packed : packings_) SPARSMITH_RETURN_IF_ERROR(send_and_place(*measurer_, *packed));
  if (tokens_) SPARSMITH_RETURN_IF_ERROR(measurer_->set_tokens(tokens_->count, tokens_->seed));
  measurer_->limit_candidates(candidate_limit_);
  return {};
}

// A device error may mean that the process died or that its context is broken: either way it is thrown away.
template <class Call>
auto DeviceSession::guarded(Uses uses, double& seconds, Call&& call) -> decltype(call(std::declval<Measurer&>())) {
  std::optional<DeviceTurn::Hold> hold;
  if (uses == Uses::kDevice || measurer_ == nullptr) hold.emplace(turn_);
  const Stopwatch stopwatch(seconds);
  SPARSMITH_RETURN_IF_ERROR(revive());
  auto result = call(*measurer_);
  StatusCode code = StatusCode::kOk;
  if constexpr (requires { result.status(); }) {
    code = result.ok() ? StatusCode::kOk : result.status().code();
  } else {
    code = result.code();
  }
  if (code == StatusCode::kDeviceError) measurer_.reset();
  return result;
}

template <class Call>
auto DeviceSession::guarded(double& seconds, Call&& call) -> decltype(call(std::declval<Measurer&>())) {
  return guarded(Uses::kDevice, seconds, std::forward<Call>(call));
}

// For calls that belong to no candidate: a worker that dies under one may have been hurt before it.
Status DeviceSession::with_retry(Uses uses, double& seconds, const std::function<Status(Measurer&)>& call) {
  Status status = guarded(uses, seconds, call);
  if (status.code() != StatusCode::kDeviceError) return status;
  log_debug("the worker is started again: {}", status.message());
  return guarded(uses, seconds, call);
}

Result<DeviceSpeeds> DeviceSession::measure_speeds() {
  return guarded(seconds_.timing, [](Measurer& measurer) { return measurer.measure_speeds(); });
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
  SPARSMITH_RETURN_IF_ERROR(with_retry(Uses::kWorker, seconds_.sending,
                                       [&](Measurer& measurer) { return measurer.set_weight(matrix, spec); }));
  matrix_ = &matrix;
  spec_ = spec;
  return {};
}

Status DeviceSession::add_packing(const PackedWeight& packed) {
  SPARSMITH_RETURN_IF_ERROR(
      with_retry(Uses::kWorker, seconds_.sending, [&](Measurer& measurer) { return measurer.send_packing(packed); }));
  Status placed = guarded(seconds_.sending, [&](Measurer& measurer) { return measurer.place_packing(packed.packing); });
  if (placed.code() == StatusCode::kDeviceError) {  // the next worker has not been sent anything
    log_debug("the worker is started again: {}", placed.message());
    placed = guarded(seconds_.sending, [&](Measurer& measurer) { return send_and_place(measurer, packed); });
  }
  SPARSMITH_RETURN_IF_ERROR(placed);
  packings_.push_back(&packed);
  return {};
}

Status DeviceSession::drop_packing(const std::string& name) {
  const auto dropped = std::erase_if(packings_, [&](const PackedWeight* packed) { return packed->packing == name; });
  if (dropped == 0) return {};
  return with_retry(Uses::kDevice, seconds_.sending, [&](Measurer& measurer) { return measurer.drop_packing(name); });
}

bool DeviceSession::has_packing(const std::string& name) const {
  return std::ranges::any_of(packings_, [&](const PackedWeight* packed) { return packed->packing == name; });
}

Status DeviceSession::set_tokens(std::int64_t tokens, std::uint64_t seed) {
  limit_candidates(kNoLimit);
  if (measurer_ != nullptr && tokens_ == Tokens{tokens, seed}) return {};
  tokens_.reset();
  ++switches_;
  SPARSMITH_RETURN_IF_ERROR(with_retry(Uses::kDevice, seconds_.reference,
                                       [&](Measurer& measurer) { return measurer.set_tokens(tokens, seed); }));
  tokens_ = {tokens, seed};
  return {};
}

void DeviceSession::limit_candidates(std::chrono::milliseconds limit) {
  candidate_limit_ = limit;
  if (measurer_) measurer_->limit_candidates(limit);
}

Result<Verification> DeviceSession::verify(const LoadedCandidate& candidate) {
  return guarded(seconds_.verifying, [&](Measurer& measurer) { return measurer.verify(candidate); });
}

Result<Timing> DeviceSession::time(const LoadedCandidate& candidate, const TimingPolicy& policy) {
  return guarded(seconds_.timing, [&](Measurer& measurer) { return measurer.time(candidate, policy); });
}

Result<std::vector<Timing>> DeviceSession::time_interleaved(const std::vector<LoadedCandidate>& candidates,
                                                            const std::vector<std::string>& vendors,
                                                            const TimingPolicy& policy) {
  return guarded(seconds_.timing,
                 [&](Measurer& measurer) { return measurer.time_interleaved(candidates, vendors, policy); });
}

Result<std::vector<Timing>> DeviceSession::time_unverified(const std::vector<LoadedCandidate>& candidates,
                                                           const TimingPolicy& policy) {
  return guarded(seconds_.timing, [&](Measurer& measurer) { return measurer.time_unverified(candidates, policy); });
}

Result<VendorTiming> DeviceSession::vendor(const std::string& name, const TimingPolicy& policy) {
  return guarded(seconds_.libraries, [&](Measurer& measurer) { return measurer.vendor(name, policy); });
}

}  // namespace sparsmith
