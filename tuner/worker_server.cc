#include "tuner/worker_server.h"

#include <fmt/format.h>

#include <new>
#include <span>
#include <utility>
#include <vector>

#include "tuner/compile/known_good_kernel.h"
#include "tuner/process/call_message.h"
#include "tuner/process/environment_fault.h"
#include "tuner/verify/device_allocation.h"

namespace sparsmith {
namespace {

// Above this number of products the GPU computes the reference, if it has the kernel.
constexpr std::int64_t kProductsForTheCpu = 1 << 22;

// From this number of outputs on the GPU compares them. Fewer outputs are copied to the host quickly.
constexpr std::int64_t kOutputsForTheCpu = 1 << 17;

// The GPU memory per output for comparing on the GPU, and the divisor of the memory that may be used for it. The rest
// is for packings.
constexpr std::int64_t kBytesAnOutput = 16;
constexpr std::int64_t kShareOfMemory = 8;

// What was verified: the plan, the weight it reads, and the code of its kernels.
std::string identity(const CompiledCandidate& candidate) {
  std::string text = candidate.packing + '\n' + to_json(candidate.plan);
  for (const KernelImage& kernel : candidate.kernels) text += '\n' + kernel.name;
  return text;
}

}  // namespace

WorkerServer::~WorkerServer() { forget_problem(); }

Result<WorkerReply> WorkerServer::handle(WorkerCall call) {
  try {
    return answer_call<WorkerReply>(call, [this](auto& typed) { return answer(typed); });
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

Result<DeviceProperties> WorkerServer::answer(const PropertiesCall&) { return executor_.properties(); }

Result<DeviceSpeeds> WorkerServer::answer(const SpeedsCall& call) {
  SPARSMITH_ASSIGN_OR_RETURN(TimingDevice* const timing, timing_device());
  if (call.probe) SPARSMITH_RETURN_IF_ERROR(executor_.load(*call.probe));
  return timing->measure_speeds(call.probe.has_value());
}

Status WorkerServer::answer(const KnownGoodCall& call) {
  const std::vector<std::uint32_t> expected = known_good_words();
  const auto bytes = std::as_bytes(std::span(expected));
  std::vector<std::uint32_t> found(expected.size());
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation words, DeviceAllocation::make(executor_, bytes.size()));
  if (call.kernel) {
    SPARSMITH_RETURN_IF_ERROR(executor_.load(*call.kernel));
    LaunchBindings bindings;
    bindings.packed = {{"words", words.address()}};
    SPARSMITH_RETURN_IF_ERROR(executor_.run(known_good_plan(), bindings));
  } else {
    SPARSMITH_RETURN_IF_ERROR(executor_.write(words.address(), bytes));
  }
  SPARSMITH_RETURN_IF_ERROR(executor_.read(std::as_writable_bytes(std::span(found)), words.address()));
  if (found != expected) return device_error("a kernel that is known to be good wrote something else");
  return {};
}

Status WorkerServer::answer(const OwnKernelCall& call) {
  SPARSMITH_RETURN_IF_ERROR(executor_.load(call.kernel));
  own_kernels_.insert(call.kernel.name);
  if (call.kernel.name == kFingerprintKernel) fingerprinter_.emplace(executor_);
  return {};
}

Status WorkerServer::answer(WeightCall& call) {
  SPARSMITH_RETURN_IF_ERROR(call.matrix->validate());
  if (!call.spec.fits(*call.matrix)) return invalid_argument("the weight has another shape than the operator");
  forget_problem();
  weight_.reset();  // before the next one takes memory
  weight_.emplace(Weight{call.matrix.take(), call.spec});
  return {};
}

Status WorkerServer::answer(PackingCall& call) {
  const PackedWeight& packed = *call.packed;
  if (!weight_) return invalid_argument("a packing came before its weight");
  const OperatorSpec& spec = weight_->spec;
  if (packed.rows != spec.weight_rows() || packed.cols != spec.weight_cols())
    return invalid_argument(fmt::format("packing {} is {} x {}, the weight {} x {}", packed.packing, packed.rows,
                                        packed.cols, spec.weight_rows(), spec.weight_cols()));
  weight_->sent = call.packed.take();
  return {};
}

Status WorkerServer::answer(const PlacePackingCall& call) {
  if (!weight_ || !weight_->sent || weight_->sent->packing != call.packing)
    return invalid_argument(fmt::format("packing {} was not sent before it was placed", call.packing));
  weight_->packings.erase(call.packing);  // before the new one takes memory
  PackedWeight packed = *std::exchange(weight_->sent, std::nullopt);
  SPARSMITH_ASSIGN_OR_RETURN(DevicePacking packing, DevicePacking::upload(executor_, std::move(packed),
                                                                          fingerprinter_ ? &*fingerprinter_ : nullptr));
  weight_->packings.emplace(call.packing, std::move(packing));
  return {};
}

Status WorkerServer::answer(const DropPackingCall& call) {
  if (weight_) weight_->packings.erase(call.packing);
  return {};
}

Fingerprinter* WorkerServer::for_device_checks(const ReferenceProblem& problem) {
  const auto outputs = static_cast<std::int64_t>(problem.bounds().size());
  const bool has_room = outputs * kBytesAnOutput <= executor_.properties().memory_bytes / kShareOfMemory;
  const bool has_kernels = fingerprinter_ && own_kernels_.contains(output_comparison_kernel_name(problem.spec().type));
  return outputs >= kOutputsForTheCpu && has_room && has_kernels ? &*fingerprinter_ : nullptr;
}

Status WorkerServer::answer(const TokensCall& call) {
  if (!weight_) return invalid_argument("tokens came before the weight");
  forget_problem();
  auto& [matrix, spec, is_new, rounded, reference, sent, packings] = *weight_;
  if (rounded == nullptr) rounded = rounded_values(matrix, spec.type);
  auto problem = std::make_unique<ReferenceProblem>(matrix, spec,
                                                    ProblemOptions{.tokens = call.tokens, .seed = call.seed}, rounded);
  const bool on_device = own_kernels_.contains(reference_kernel_name(spec)) &&
                         matrix.nnz() > kProductsForTheCpu / std::max<std::int64_t>(call.tokens, 1);
  if (on_device) {
    if (!reference) {
      SPARSMITH_ASSIGN_OR_RETURN(reference, ReferenceWeight::upload(executor_, matrix, *rounded));
    }
    SPARSMITH_ASSIGN_OR_RETURN(ReferenceSums sums, compute_sums_on(executor_, *problem, *reference));
    problem->set_sums(std::move(sums));
  } else {
    problem->set_sums(problem->compute_sums());
  }
  SPARSMITH_ASSIGN_OR_RETURN(verifier_, PlanVerifier::create(executor_, *problem, for_device_checks(*problem)));
  problem_ = std::move(problem);
  if (timing_ != nullptr) timing_->set_problem(problem_.get(), verifier_.get(), !is_new);
  is_new = false;
  return {};
}

Result<DevicePacking*> WorkerServer::packing_of(const CompiledCandidate& candidate) {
  if (verifier_ == nullptr) return invalid_argument("a candidate came before the tokens");
  const auto found = weight_->packings.find(candidate.packing);
  if (found == weight_->packings.end())
    return not_found("there is no packing " + candidate.packing + " of this weight");
  return &found->second;
}

Result<Verification> WorkerServer::answer(const VerifyCall& call) {
  SPARSMITH_ASSIGN_OR_RETURN(DevicePacking* const packing, packing_of(call.candidate));
  for (const KernelImage& kernel : call.candidate.kernels) SPARSMITH_RETURN_IF_ERROR(executor_.load(kernel));
  executor_.limit_runs(std::chrono::milliseconds(call.run_limit_ms));
  Result<Verification> verified = verifier_->verify(call.candidate.plan, *packing);
  executor_.limit_runs(std::chrono::milliseconds(0));
  if (verified.ok() && verified->ok) verified_.insert(identity(call.candidate));
  return verified;
}

Result<std::vector<Timing>> WorkerServer::answer(const TimeCall& call) {
  SPARSMITH_ASSIGN_OR_RETURN(TimingDevice* const timing, timing_device());
  // Candidates run one after another, so that all share the workspace of the one that needs most.
  std::int64_t workspace_bytes = 0;
  for (const CompiledCandidate& candidate : call.candidates) {
    SPARSMITH_ASSIGN_OR_RETURN(const DevicePacking* const packing, packing_of(candidate));
    if (!call.unverified && !verified_.contains(identity(candidate)))
      return invalid_argument("a candidate is to be timed that was not verified on this weight and N");
    for (const KernelImage& kernel : candidate.kernels) SPARSMITH_RETURN_IF_ERROR(executor_.load(kernel));
    SPARSMITH_ASSIGN_OR_RETURN(const std::int64_t bytes, verifier_->workspace_bytes(candidate.plan, *packing));
    workspace_bytes = std::max(workspace_bytes, bytes);
  }
  std::vector<TimedCandidate> timed;
  for (const CompiledCandidate& candidate : call.candidates) {
    SPARSMITH_ASSIGN_OR_RETURN(const DevicePacking* const packing, packing_of(candidate));
    SPARSMITH_ASSIGN_OR_RETURN(LaunchBindings bindings, verifier_->bindings(workspace_bytes, *packing));
    timed.push_back({.plan = &candidate.plan, .bindings = std::move(bindings), .packing = packing});
  }
  return timing->time(timed, call.vendors, call.policy);
}

Result<VendorTiming> WorkerServer::answer(const VendorCall& call) {
  SPARSMITH_ASSIGN_OR_RETURN(TimingDevice* const timing, timing_device());
  if (problem_ == nullptr) return invalid_argument("a vendor was asked for before the tokens");
  return timing->vendor(call.name, call.policy, call.without);
}

int serve_worker(MessageStream stream, WorkerServer& server) {
  return serve_parent(stream, "worker", [&](Message message) {
    WorkerCall call;
    const Status decoded = decode_call(std::move(message), call);
    const Result<WorkerReply> reply = decoded.ok() ? server.handle(std::move(call)) : Result<WorkerReply>(decoded);
    SPARSMITH_RETURN_IF_ERROR(stream.send(encode_reply(reply)));
    server.warm_up();
    return Status();
  });
}

int refuse_to_serve(MessageStream stream, const Status& reason) {
  if (stream.receive().ok()) (void)stream.send(encode_error(reason));
  return 1;
}

}  // namespace sparsmith
