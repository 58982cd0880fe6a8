#include "tuner/worker_server.h"

#include <fmt/format.h>

#include <new>
#include <span>
#include <utility>
#include <vector>

#include "tuner/device_allocation.h"
#include "tuner/environment_fault.h"
#include "tuner/known_good_kernel.h"
#include "tuner/serve_parent.h"

namespace sparsmith {
namespace {

// Products above which the GPU computes the reference, where it has the kernel.
constexpr std::int64_t kProductsForTheCpu = 1 << 22;

// Outputs from which on the GPU compares them; so few come to the host in no time.
constexpr std::int64_t kOutputsForTheCpu = 1 << 17;

// What comparing on the GPU takes of its memory for an output, and the share of the memory that may be taken for it:
// the rest is for packings.
constexpr std::int64_t kBytesAnOutput = 16;
constexpr std::int64_t kShareOfMemory = 8;

// What was verified: the plan, the weight it reads, and the code of its kernels.
std::string identity(const LoadedCandidate& candidate) {
  std::string text = candidate.packing + '\n' + to_json(candidate.plan);
  for (const KernelImage& kernel : candidate.kernels) text += '\n' + kernel.name;
  return text;
}

}  // namespace

WorkerServer::~WorkerServer() { forget_problem(); }

Result<WorkerReply> WorkerServer::handle(WorkerRequest request) {
  try {
    return std::visit([this](auto& typed) { return answer(typed); }, request);
  } catch (const std::bad_alloc&) {
    return out_of_memory(fmt::format("the worker has {} for this weight and N", kTooLittleHostMemory));
  }
}

void WorkerServer::warm_up() {
  if (timing_ != nullptr && !std::exchange(warm_, true)) timing_->warm_up();
}

void WorkerServer::forget_problem() {
  if (timing_ != nullptr) timing_->set_problem(nullptr, nullptr, false);
  verified_.clear();
  verifier_.reset();
  problem_.reset();
}

Result<TimingDevice*> WorkerServer::timing_device() const {
  if (timing_ == nullptr) return unsupported(executor_.properties().name + " measures no time; that takes a GPU");
  return timing_;
}

Result<WorkerReply> WorkerServer::answer(const PropertiesRequest&) { return WorkerReply(executor_.properties()); }

Result<WorkerReply> WorkerServer::answer(const SpeedsRequest& request) {
  SPARSMITH_ASSIGN_OR_RETURN(TimingDevice* const timing, timing_device());
  if (request.probe) SPARSMITH_RETURN_IF_ERROR(executor_.load(*request.probe));
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceSpeeds speeds, timing->measure_speeds(request.probe.has_value()));
  return WorkerReply(speeds);
}

Result<WorkerReply> WorkerServer::answer(const KnownGoodRequest& request) {
  const std::vector<std::uint32_t> expected = known_good_words();
  const auto bytes = std::as_bytes(std::span(expected));
  std::vector<std::uint32_t> found(expected.size());
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation words, DeviceAllocation::make(executor_, bytes.size()));
  if (request.kernel) {
    SPARSMITH_RETURN_IF_ERROR(executor_.load(*request.kernel));
    LaunchBindings bindings;
    bindings.packed = {{"words", words.address()}};
    SPARSMITH_RETURN_IF_ERROR(executor_.run(known_good_plan(), bindings));
  } else {
    SPARSMITH_RETURN_IF_ERROR(executor_.write(words.address(), bytes));
  }
  SPARSMITH_RETURN_IF_ERROR(executor_.read(std::as_writable_bytes(std::span(found)), words.address()));
  if (found != expected) return device_error("a kernel that is known to be good wrote something else");
  return WorkerReply();
}

Result<WorkerReply> WorkerServer::answer(const ReferenceKernelRequest& request) {
  SPARSMITH_RETURN_IF_ERROR(executor_.load(request.kernel));
  reference_kernels_.insert(request.type);
  return WorkerReply();
}

Result<WorkerReply> WorkerServer::answer(const OutputComparisonKernelRequest& request) {
  SPARSMITH_RETURN_IF_ERROR(executor_.load(request.kernel));
  output_comparison_kernels_.insert(request.type);
  return WorkerReply();
}

Result<WorkerReply> WorkerServer::answer(const FingerprintKernelRequest& request) {
  SPARSMITH_RETURN_IF_ERROR(executor_.load(request.kernel));
  SPARSMITH_ASSIGN_OR_RETURN(Fingerprinter fingerprinter, Fingerprinter::create(executor_));
  fingerprinter_.emplace(std::move(fingerprinter));
  return WorkerReply();
}

Result<WorkerReply> WorkerServer::answer(WeightRequest& request) {
  SPARSMITH_RETURN_IF_ERROR(request.matrix.validate());
  if (!request.spec.fits(request.matrix)) return invalid_argument("the weight has another shape than the operator");
  forget_problem();
  sent_.reset();
  packings_.clear();
  reference_weight_.reset();
  rounded_.reset();
  matrix_ = std::move(request.matrix);
  spec_ = request.spec;
  has_weight_ = true;
  weight_is_new_ = true;
  return WorkerReply();
}

Result<WorkerReply> WorkerServer::answer(PackingRequest& request) {
  const PackedWeight& packed = request.packed;
  if (!has_weight_) return invalid_argument("a packing came before its weight");
  if (packed.rows != spec_.weight_rows() || packed.cols != spec_.weight_cols())
    return invalid_argument(fmt::format("packing {} is {} x {}, the weight {} x {}", packed.packing, packed.rows,
                                        packed.cols, spec_.weight_rows(), spec_.weight_cols()));
  sent_ = std::move(request.packed);
  return WorkerReply();
}

Result<WorkerReply> WorkerServer::answer(const PlacePackingRequest& request) {
  if (!sent_ || sent_->packing != request.name)
    return invalid_argument(fmt::format("packing {} was not sent before it was placed", request.name));
  packings_.erase(request.name);  // before the new one takes memory
  PackedWeight packed = *std::exchange(sent_, std::nullopt);
  SPARSMITH_ASSIGN_OR_RETURN(DevicePacking packing, DevicePacking::upload(executor_, std::move(packed),
                                                                          fingerprinter_ ? &*fingerprinter_ : nullptr));
  packings_.emplace(request.name, std::move(packing));
  return WorkerReply();
}

Result<WorkerReply> WorkerServer::answer(const DropPackingRequest& request) {
  packings_.erase(request.name);
  return WorkerReply();
}

Fingerprinter* WorkerServer::for_device_checks(const ReferenceProblem& problem) {
  const auto outputs = static_cast<std::int64_t>(problem.bounds().size());
  const bool has_room = outputs * kBytesAnOutput <= executor_.properties().memory_bytes / kShareOfMemory;
  const bool wanted = outputs >= kOutputsForTheCpu && has_room;
  return wanted && fingerprinter_ && output_comparison_kernels_.contains(spec_.type) ? &*fingerprinter_ : nullptr;
}

Result<WorkerReply> WorkerServer::answer(const TokensRequest& request) {
  if (!has_weight_) return invalid_argument("tokens came before the weight");
  forget_problem();
  if (rounded_ == nullptr) rounded_ = rounded_values(matrix_, spec_.type);
  auto problem = std::make_unique<ReferenceProblem>(
      matrix_, spec_, ProblemOptions{.tokens = request.tokens, .seed = request.seed}, rounded_);
  const bool on_device = spec_.multiplies_weight() && reference_kernels_.contains(spec_.type) &&
                         matrix_.nnz() > kProductsForTheCpu / std::max<std::int64_t>(request.tokens, 1);
  if (on_device) {
    if (!reference_weight_) {
      SPARSMITH_ASSIGN_OR_RETURN(ReferenceWeight weight, ReferenceWeight::upload(executor_, matrix_, *rounded_));
      reference_weight_.emplace(std::move(weight));
    }
    SPARSMITH_ASSIGN_OR_RETURN(ReferenceSums sums, compute_sums_on(executor_, *problem, *reference_weight_));
    problem->set_sums(std::move(sums));
  } else {
    problem->set_sums(problem->compute_sums());
  }
  SPARSMITH_ASSIGN_OR_RETURN(verifier_, PlanVerifier::create(executor_, *problem, for_device_checks(*problem)));
  problem_ = std::move(problem);
  if (timing_ != nullptr) timing_->set_problem(problem_.get(), verifier_.get(), !weight_is_new_);
  weight_is_new_ = false;
  return WorkerReply();
}

Result<DevicePacking*> WorkerServer::packing_of(const LoadedCandidate& candidate) {
  if (verifier_ == nullptr) return invalid_argument("a candidate came before the tokens");
  const auto found = packings_.find(candidate.packing);
  if (found == packings_.end()) return not_found("there is no packing " + candidate.packing + " of this weight");
  return &found->second;
}

Result<WorkerReply> WorkerServer::answer(const VerifyRequest& request) {
  SPARSMITH_ASSIGN_OR_RETURN(DevicePacking* const packing, packing_of(request.candidate));
  for (const KernelImage& kernel : request.candidate.kernels) SPARSMITH_RETURN_IF_ERROR(executor_.load(kernel));
  executor_.limit_runs(request.run_limit);
  Result<Verification> verified = verifier_->verify(request.candidate.plan, *packing);
  executor_.limit_runs(std::chrono::milliseconds(0));
  SPARSMITH_ASSIGN_OR_RETURN(Verification verification, std::move(verified));
  if (verification.ok) verified_.insert(identity(request.candidate));
  return WorkerReply(std::move(verification));
}

Result<WorkerReply> WorkerServer::answer(const TimeRequest& request) {
  SPARSMITH_ASSIGN_OR_RETURN(TimingDevice* const timing, timing_device());
  // Candidates run one after another, so that all share the workspace of the one that needs most.
  std::int64_t workspace_bytes = 0;
  for (const LoadedCandidate& candidate : request.candidates) {
    SPARSMITH_ASSIGN_OR_RETURN(const DevicePacking* const packing, packing_of(candidate));
    if (!request.unverified && !verified_.contains(identity(candidate)))
      return invalid_argument("a candidate is to be timed that was not verified on this weight and N");
    for (const KernelImage& kernel : candidate.kernels) SPARSMITH_RETURN_IF_ERROR(executor_.load(kernel));
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes, verifier_->workspace_bytes(candidate.plan, *packing));
    workspace_bytes = std::max(workspace_bytes, bytes);
  }
  std::vector<TimedCandidate> timed;
  for (const LoadedCandidate& candidate : request.candidates) {
    SPARSMITH_ASSIGN_OR_RETURN(const DevicePacking* const packing, packing_of(candidate));
    SPARSMITH_ASSIGN_OR_RETURN(LaunchBindings bindings, verifier_->bindings(workspace_bytes, *packing));
    timed.push_back({.plan = &candidate.plan, .bindings = std::move(bindings), .packing = packing});
  }
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<Timing> timings, timing->time(timed, request.vendors, request.policy));
  return WorkerReply(std::move(timings));
}

Result<WorkerReply> WorkerServer::answer(const VendorRequest& request) {
  SPARSMITH_ASSIGN_OR_RETURN(TimingDevice* const timing, timing_device());
  if (problem_ == nullptr) return invalid_argument("a vendor was asked for before the tokens");
  SPARSMITH_ASSIGN_OR_RETURN(VendorTiming vendor, timing->vendor(request.name, request.policy));
  return WorkerReply(std::move(vendor));
}

int serve_worker(MessageStream stream, WorkerServer& server) {
  return serve_parent(stream, "worker", [&](Message message) {
    Result<WorkerRequest> request = decode_request(std::move(message));
    const Result<WorkerReply> reply =
        request.ok() ? server.handle(*std::move(request)) : Result<WorkerReply>(request.status());
    SPARSMITH_RETURN_IF_ERROR(stream.send(encode_reply(reply)));
    server.warm_up();
    return Status();
  });
}

int refuse_to_serve(MessageStream stream, const Status& reason) {
  if (stream.receive().ok()) (void)stream.send(encode_reply(reason));
  return 1;
}

}  // namespace sparsmith
