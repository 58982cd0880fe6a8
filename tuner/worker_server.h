// The worker's side of the protocol: loads, checks and times what the parent sends.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "runtime/executor.h"
#include "tuner/device_packing.h"
#include "tuner/fingerprint.h"
#include "tuner/message.h"
#include "tuner/plan_verifier.h"
#include "tuner/reference_kernel.h"
#include "tuner/timing_device.h"
#include "tuner/worker_protocol.h"

namespace sparsmith {

// One thread at a time. Holds one weight, its packings, and one problem at a time.
class WorkerServer {
 public:
  // `timing` may be null: then everything that takes time is answered with kUnsupported. It outlives the server, as
  // `executor` does.
  WorkerServer(Executor& executor, TimingDevice* timing) : executor_(executor), timing_(timing) {}
  ~WorkerServer();

  Result<WorkerReply> handle(WorkerRequest request);
  // Between two requests: what will be needed, while the parent does other things.
  void warm_up();

 private:
  Result<WorkerReply> answer(const PropertiesRequest& request);
  Result<WorkerReply> answer(const SpeedsRequest& request);
  Result<WorkerReply> answer(const KnownGoodRequest& request);
  Result<WorkerReply> answer(const ReferenceKernelRequest& request);
  Result<WorkerReply> answer(const OutputComparisonKernelRequest& request);
  Result<WorkerReply> answer(const FingerprintKernelRequest& request);
  Result<WorkerReply> answer(WeightRequest& request);
  Result<WorkerReply> answer(PackingRequest& request);
  Result<WorkerReply> answer(const PlacePackingRequest& request);
  Result<WorkerReply> answer(const DropPackingRequest& request);
  Result<WorkerReply> answer(const TokensRequest& request);
  Result<WorkerReply> answer(const VerifyRequest& request);
  Result<WorkerReply> answer(const TimeRequest& request);
  Result<WorkerReply> answer(const VendorRequest& request);

  void forget_problem();
  // What the verifier of `problem` is given, to compare on the device; null where the host does it.
  Fingerprinter* for_device_checks(const ReferenceProblem& problem);
  Result<DevicePacking*> packing_of(const LoadedCandidate& candidate);
  Result<TimingDevice*> timing_device() const;

  Executor& executor_;
  TimingDevice* timing_;
  bool warm_ = false;
  std::set<DataType> reference_kernels_;          // loaded ones
  std::set<DataType> output_comparison_kernels_;  // likewise
  bool has_weight_ = false;
  bool weight_is_new_ = true;  // to the timing device
  CsrMatrix matrix_;
  OperatorSpec spec_;
  RoundedValues rounded_;  // of the matrix; null until they are needed, as the next
  std::optional<ReferenceWeight> reference_weight_;
  std::optional<Fingerprinter> fingerprinter_;
  std::optional<PackedWeight> sent_;  // until it is placed
  std::map<std::string, DevicePacking> packings_;
  std::unique_ptr<ReferenceProblem> problem_;
  std::unique_ptr<PlanVerifier> verifier_;
  std::set<std::string> verified_;  // plans that passed on this problem, with their packing
};

// Answers requests that come in on `stream` until the other end closes it, and returns the process's exit code. Ends
// the process at once when the other end goes away in the middle of a request.
int serve_worker(MessageStream stream, WorkerServer& server);

// Answers the first request with `reason`, where there is no device to serve; returns the process's exit code.
int refuse_to_serve(MessageStream stream, const Status& reason);

}  // namespace sparsmith
