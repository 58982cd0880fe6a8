// A device that outlives what runs on it: when a worker dies, the session starts another one and gives it back
// the weight, the packings and the tokens, so that a candidate that takes its worker down costs only itself.
//
// When the call of a candidate fails, a worker runs a kernel that is known to be good. Where that fails too, the
// machine is at fault: the session is over, and health() says why. A candidate whose worker others killed, or that met
// another fault of the machine (environment_fault.h), is tried again.
//
// Sessions of one GPU, of this process or of others, use it in turns, a call each; what a worker is only sent takes no
// turn.
//
// One thread at a time. The weight and the packings are referred to, not copied: they must live until the next
// set_weight(), drop_packing() or the session's end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "search/trial/device_turn.h"
#include "tuner/worker.h"

namespace sparsmith {

class DeviceSession {
 public:
  // Error: what the factory says when there is no such device.
  static Result<DeviceSession> open(WorkerFactory factory);

  const DeviceProperties& properties() const { return properties_; }
  // Whether another session of the same device may be searched beside it.
  bool takes_turns() const { return turn_.exists(); }
  void set_speeds(const DeviceSpeeds& speeds) { properties_.set_speeds(speeds); }
  Result<DeviceSpeeds> measure_speeds();

  Status set_weight(const CsrMatrix& matrix, const OperatorSpec& spec);
  Status add_packing(const PackedWeight& packed);
  // After it, the packed weight is no longer referred to.
  Status drop_packing(const std::string& name);
  bool has_packing(const std::string& name) const;
  // Does nothing where these are the tokens anyway.
  Status set_tokens(std::int64_t tokens, std::uint64_t seed);

  // What each call of verify() and time() may take before the worker is thought to hang, until the next set_tokens().
  // A GPU that is not done with a run of verify() after a tenth of it is thought to hang as well.
  void limit_candidates(std::chrono::milliseconds limit) { candidate_limit_ = limit; }
  // As the worker's calls. An error while health() is ok: the candidate failed or the worker died of it, and the
  // session goes on; where it is a fault of the machine, which came again each time, nothing is known of the candidate.
  Result<Verification> verify(const CompiledCandidate& candidate);
  Result<Timing> time(const CompiledCandidate& candidate, const TimingPolicy& policy);
  Result<std::vector<Timing>> time_interleaved(const std::vector<CompiledCandidate>& candidates,
                                               const std::vector<std::string>& vendors, const TimingPolicy& policy);
  Result<std::vector<Timing>> time_unverified(const std::vector<CompiledCandidate>& candidates,
                                              const TimingPolicy& policy);
  // Each library on this weight and N. One that fails is not supported, with the reason as detail. An algorithm that
  // breaks the GPU's context is left out from then on, and so is a library that hangs or ends the worker. The worker's
  // last: what it verified before may be unknown to it.
  std::vector<VendorTiming> vendors(const std::vector<std::string>& names, const TimingPolicy& policy);

  // A number that has changed says that whatever was verified or measured before (vendors too) is unknown to the
  // worker of now: it was started again, or had another N meanwhile.
  int epoch() const { return restarts_ + switches_; }
  // How often a worker was started again.
  int restarts() const { return restarts_; }

  // What calls to the device have taken so far, without the wait for their turns.
  struct Seconds {
    double sending = 0;    // weights and packings
    double reference = 0;  // drawing inputs, and the outputs that are expected
    double verifying = 0;
    double timing = 0;
    double libraries = 0;
    double waiting = 0;  // for what to do; another session may have had the device meanwhile
    void add(const Seconds& other);
  };
  const Seconds& seconds() const { return seconds_; }
  void add_waiting(double seconds) { seconds_.waiting += seconds; }

  // Ok, or why there is no worker: nothing that failed since then is a candidate's fault.
  const Status& health() const { return health_; }

 private:
  explicit DeviceSession(WorkerFactory factory) : factory_(std::move(factory)) {}

  // Starts a worker where there is none, and brings it to the session's state.
  Status revive();
  Status restore();
  enum class Uses : std::uint8_t { kDevice, kWorker };
  // `seconds`: takes the time of the call.
  template <class Call>
  auto guarded(double& seconds, const Call& call, Uses uses = Uses::kDevice) -> decltype(call(std::declval<Worker&>()));
  // For the call of a candidate.
  template <class Call>
  auto judged(double& seconds, const Call& call) -> decltype(call(std::declval<Worker&>()));
  Result<VendorTiming> vendor(const std::string& name, const TimingPolicy& policy,
                              const std::vector<std::string>& slower);
  // Ends the session where the machine cannot do what is known to be good.
  Status check_known_good();
  Status end(const Status& reason);
  Status with_retry(Uses uses, double& seconds, const std::function<Status(Worker&)>& call);

  WorkerFactory factory_;
  std::unique_ptr<Worker> worker_;
  DeviceProperties properties_;
  DeviceTurn turn_;  // held while the device works
  Status health_;
  bool ended_ = false;
  int restarts_ = -1;  // the first start is none
  int switches_ = 0;   // of N
  Seconds seconds_;

  const CsrMatrix* matrix_ = nullptr;
  OperatorSpec spec_;
  std::vector<const PackedWeight*> packings_;
  struct Tokens {
    std::int64_t count;
    std::uint64_t seed;
    bool operator==(const Tokens&) const = default;
  };
  std::optional<Tokens> tokens_;
  std::chrono::milliseconds candidate_limit_ = Worker::kNoLimit;
  std::map<std::string, std::vector<std::string>> broken_;  // algorithms that broke a context, by library
  std::map<std::string, Status> lost_;                      // libraries that hung or ended the worker, and how
};

}  // namespace sparsmith
