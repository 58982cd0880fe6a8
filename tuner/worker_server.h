// The worker's side of the calls: it loads, checks and times the candidates from the parent.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "runtime/executor.h"
#include "tuner/process/message.h"
#include "tuner/timing_device.h"
#include "tuner/verify/device_packing.h"
#include "tuner/verify/fingerprint.h"
#include "tuner/verify/plan_verifier.h"
#include "tuner/verify/reference_kernel.h"
#include "tuner/worker_calls.h"

namespace sparsmith {

// One thread at a time. Holds one weight, its packings, and one problem at a time.
class WorkerServer {
 public:
  // `timing` may be null: then all calls that measure time return kUnsupported. `timing` and `executor` outlive the
  // server.
  WorkerServer(Executor& executor, TimingDevice* timing) : executor_(executor), timing_(timing) {}
  ~WorkerServer();

  Result<WorkerReply> handle(WorkerCall call);
  // Prepares later calls. It is called between two calls, while the parent is busy.
  void warm_up();

 private:
  Result<DeviceProperties> answer(const PropertiesCall& call);
  Result<DeviceSpeeds> answer(const SpeedsCall& call);
  Status answer(const KnownGoodCall& call);
  Status answer(const OwnKernelCall& call);
  Status answer(WeightCall& call);
  Status answer(PackingCall& call);
  Status answer(const PlacePackingCall& call);
  Status answer(const DropPackingCall& call);
  Status answer(const TokensCall& call);
  Result<Verification> answer(const VerifyCall& call);
  Result<std::vector<Timing>> answer(const TimeCall& call);
  Result<VendorTiming> answer(const VendorCall& call);

  void forget_problem();
  // The fingerprinter for the verifier of `problem`, to compare on the device; null when the host compares.
  Fingerprinter* for_device_checks(const ReferenceProblem& problem);
  Result<DevicePacking*> packing_of(const CompiledCandidate& candidate);
  Result<TimingDevice*> timing_device() const;

  Executor& executor_;
  TimingDevice* timing_;
  bool warm_ = false;
  std::set<std::string> own_kernels_;  // names
  // A weight with its packings and reference.
  struct Weight {
    CsrMatrix matrix;
    OperatorSpec spec;
    bool is_new = true;       // not yet known to the timing device
    RoundedValues rounded{};  // of the matrix; null until needed, like `reference`
    std::optional<ReferenceWeight> reference{};
    std::optional<PackedWeight> sent{};  // the packing that was sent and is not yet placed
    std::map<std::string, DevicePacking> packings{};
  };
  std::optional<Weight> weight_;
  std::optional<Fingerprinter> fingerprinter_;
  std::unique_ptr<ReferenceProblem> problem_;
  std::unique_ptr<PlanVerifier> verifier_;
  std::set<std::string> verified_;  // plans, with their packings, that passed on this problem
};

// Answers the calls on `stream` until the other end closes it. Returns the process's exit code. Ends the process at
// once when the other end closes the socket during a call.
int serve_worker(MessageStream stream, WorkerServer& server);

// Answers the first call with `reason`, when there is no device. Returns the process's exit code.
int refuse_to_serve(MessageStream stream, const Status& reason);

}  // namespace sparsmith
