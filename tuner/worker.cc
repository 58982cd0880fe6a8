#include "tuner/worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "base/log.h"
#include "tuner/child_channel.h"
#include "tuner/child_process.h"
#include "tuner/fingerprint.h"
#include "tuner/kernel_compiler.h"
#include "tuner/known_good_kernel.h"
#include "tuner/message.h"
#include "tuner/output_comparison.h"
#include "tuner/reference_kernel.h"
#include "tuner/speed_probe.h"
#include "tuner/worker_protocol.h"

namespace sparsmith {
namespace {

// A reply is a header alone, and a small one.
constexpr FrameLimits kReplyLimits = {.header_bytes = 64U << 20, .blobs = 0, .total_bytes = 0};

// What a candidate's call may take, over what one of its runs may.
constexpr int kLimitOverRuns = 10;

// A kernel for the worker's own use, compiled once in a process: workers come and go.
Result<KernelImage> compiled_for(int compute_capability, const Result<KernelSource>& source) {
  static std::mutex mutex;  // guards `images`
  static std::map<std::string, KernelImage> images;
  SPARSMITH_RETURN_IF_ERROR(source.status());
  const std::string architecture = fmt::format("sm_{}", compute_capability);
  const std::lock_guard lock(mutex);
  KernelImage& image = images[source->name + " " + architecture];
  if (!image.cubin.empty()) return image;
  SPARSMITH_ASSIGN_OR_RETURN(const std::unique_ptr<KernelCompiler> compiler, KernelCompiler::open());
  SPARSMITH_ASSIGN_OR_RETURN(CompiledKernel compiled, compiler->compile(*source, architecture));
  image = {source->name, source->source, std::move(compiled.cubin), source->max_shared_bytes};
  return image;
}

struct DeviceName {
  std::vector<std::string> programs;  // in the folder of this program; the first that is there
  std::vector<std::string> arguments;
};

std::string installed_program(const DeviceName& device) {
  std::string path;
  for (const std::string& name : device.programs) {
    path = program_folder() + "/" + name;
    if (access(path.c_str(), X_OK) == 0) break;
  }
  return path;
}

Result<DeviceName> parse_device(const std::string& device) {
  if (device == "emulator") return DeviceName{{"sparsmith-emulator-jit", "sparsmith-emulator"}, {}};
  constexpr std::string_view kCuda = "cuda:";
  const std::string ordinal = device.starts_with(kCuda) ? device.substr(kCuda.size()) : "";
  if (ordinal.empty() || ordinal.size() > 3 || ordinal.find_first_not_of("0123456789") != std::string::npos)
    return invalid_argument(fmt::format("device \"{}\" is neither \"emulator\" nor \"cuda:<number>\"", device));
  return DeviceName{{"sparsmith-worker"}, {"--device", ordinal}};
}

}  // namespace

std::string TimingPolicy::name() const {
  std::string name = cold_weights ? "cold_weights" : "warm_weights";
  if (programmatic) name += "_programmatic";
  if (layers > 0) name += fmt::format("_{}_layers", layers);
  return name;
}

class Worker::Channel {
 public:
  Channel(ChildProcess child, const Options& options)
      : channel_(std::move(child), "the worker", options.interrupted_at), timeout_(options.timeout) {}

  // Sends a request and waits for its answer; `what` says in errors what was going on.
  Result<WorkerReply> call(const OutgoingMessage& request, const std::string& what,
                           std::chrono::milliseconds limit = std::chrono::hours(24)) {
    const std::chrono::milliseconds timeout = std::min<std::chrono::milliseconds>(timeout_, limit);
    SPARSMITH_ASSIGN_OR_RETURN(const Message message, channel_.ask(request, what, timeout, kReplyLimits));
    Result<WorkerReply> reply = decode_reply(message);
    if (reply.ok()) return reply;
    // A GPU's context does not outlive an error of a kernel: the next call would fail as well.
    if (reply.status().code() == StatusCode::kDeviceError) channel_.give_up("lost its device");
    return reply.status().annotate(what);
  }

  template <class T>
  Result<T> call_for(const OutgoingMessage& request, const std::string& what,
                     std::chrono::milliseconds limit = std::chrono::hours(24)) {
    SPARSMITH_ASSIGN_OR_RETURN(WorkerReply reply, call(request, what, limit));
    if (T* const value = std::get_if<T>(&reply)) return std::move(*value);
    return internal_error(what + ": the worker answered something else");
  }

 private:
  ChildChannel channel_;
  std::chrono::seconds timeout_;
};

Worker::Worker(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}
Worker::~Worker() = default;

Result<std::unique_ptr<Worker>> Worker::start(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const DeviceName device, parse_device(options.device));
  const std::string program = options.program.empty() ? installed_program(device) : options.program;
  SPARSMITH_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::start(program, device.arguments));
  std::unique_ptr<Worker> worker(new Worker(std::make_unique<Channel>(std::move(child), options)));
  SPARSMITH_ASSIGN_OR_RETURN(worker->properties_, worker->channel_->call_for<DeviceProperties>(
                                                      encode_properties_request(), "starting on " + options.device));
  return worker;
}

const DeviceProperties& Worker::properties() const { return properties_; }

Result<DeviceSpeeds> Worker::measure_speeds() {
  std::optional<KernelImage> probe;
  if (!properties_.is_emulator) {
    auto compiled = compiled_for(properties_.compute_capability, speed_probe_kernel());
    if (!compiled.ok()) log_debug("of the device only the memory is measured: {}", compiled.status().to_string());
    if (compiled.ok()) probe = *std::move(compiled);
  }
  return channel_->call_for<DeviceSpeeds>(encode_speeds_request(probe), "measuring what the device reaches");
}

Status Worker::check_known_good() {
  SPARSMITH_ASSIGN_OR_RETURN(const KernelSource source, known_good_kernel());
  std::optional<KernelImage> image;
  if (properties_.is_emulator) {
    static std::atomic<int> calls = 0;  // another text each time: what is loaded is not compiled again
    image = KernelImage{source.name, fmt::format("{}\n// call {}\n", source.source, ++calls), {}, 0};
  } else if (auto compiled = compiled_for(properties_.compute_capability, source); compiled.ok()) {
    image = *std::move(compiled);
  }
  return channel_->call(encode_known_good_request(image), "running a kernel that is known to be good").status();
}

Status Worker::send_reference_kernel(DataType type) {
  if (properties_.is_emulator || !reference_kernels_.insert(type).second) return {};
  const Result<KernelImage> image = compiled_for(properties_.compute_capability, reference_kernel(type));
  if (!image.ok()) {
    log_debug("the fp64 reference is computed on the CPU: {}", image.status().to_string());
    return {};
  }
  return channel_->call(encode_reference_kernel_request(type, *image), "loading the reference kernel").status();
}

Status Worker::send_output_comparison_kernel(DataType type) {
  if (properties_.is_emulator || !output_comparison_kernels_.insert(type).second) return {};
  const Result<KernelImage> image = compiled_for(properties_.compute_capability, output_comparison_kernel(type));
  if (!image.ok()) {
    log_debug("outputs are compared on the CPU: {}", image.status().to_string());
    return {};
  }
  return channel_->call(encode_output_comparison_kernel_request(type, *image), "loading the kernel of comparisons")
      .status();
}

Status Worker::send_fingerprint_kernel() {
  if (properties_.is_emulator || std::exchange(fingerprint_kernel_, true)) return {};
  const Result<KernelImage> image = compiled_for(properties_.compute_capability, fingerprint_kernel());
  if (!image.ok()) {
    log_debug("packed weights are read back after each candidate: {}", image.status().to_string());
    return {};
  }
  return channel_->call(encode_fingerprint_kernel_request(*image), "loading the fingerprint kernel").status();
}

Status Worker::set_weight(const CsrMatrix& matrix, const OperatorSpec& spec) {
  SPARSMITH_RETURN_IF_ERROR(send_reference_kernel(spec.type));
  SPARSMITH_RETURN_IF_ERROR(send_output_comparison_kernel(spec.type));
  SPARSMITH_RETURN_IF_ERROR(send_fingerprint_kernel());
  return channel_->call(encode_weight_request(matrix, spec), "sending the weight").status();
}

Status Worker::send_packing(const PackedWeight& packed) {
  return channel_->call(encode_packing_request(packed), "sending packing " + packed.packing).status();
}

Status Worker::place_packing(const std::string& name) {
  return channel_->call(encode_place_packing_request(name), "placing packing " + name).status();
}

Status Worker::add_packing(const PackedWeight& packed) {
  SPARSMITH_RETURN_IF_ERROR(send_packing(packed));
  return place_packing(packed.packing);
}

Status Worker::drop_packing(const std::string& name) {
  return channel_->call(encode_drop_packing_request(name), "dropping packing " + name).status();
}

Status Worker::set_tokens(std::int64_t tokens, std::uint64_t seed) {
  return channel_->call(encode_tokens_request(tokens, seed), fmt::format("drawing inputs for N = {}", tokens)).status();
}

namespace {

std::string kernels_of(const LoadedCandidate& candidate) {
  std::string names;
  for (const KernelImage& kernel : candidate.kernels) names += (names.empty() ? "" : ", ") + kernel.name;
  return names;
}

}  // namespace

Result<Verification> Worker::verify(const LoadedCandidate& candidate) {
  return channel_->call_for<Verification>(encode_verify_request(candidate, candidate_limit_ / kLimitOverRuns),
                                          "verifying " + kernels_of(candidate), candidate_limit_);
}

Result<Timing> Worker::time(const LoadedCandidate& candidate, const TimingPolicy& policy) {
  SPARSMITH_ASSIGN_OR_RETURN(std::vector<Timing> timings, channel_->call_for<std::vector<Timing>>(
                                                              encode_time_request({candidate}, {}, policy),
                                                              "timing " + kernels_of(candidate), candidate_limit_));
  if (timings.size() != 1) return internal_error("the worker timed another number of candidates");
  return std::move(timings.front());
}

Result<std::vector<Timing>> Worker::time_interleaved(const std::vector<LoadedCandidate>& candidates,
                                                     const std::vector<std::string>& vendors,
                                                     const TimingPolicy& policy) {
  SPARSMITH_ASSIGN_OR_RETURN(
      std::vector<Timing> timings,
      channel_->call_for<std::vector<Timing>>(encode_time_request(candidates, vendors, policy),
                                              fmt::format("timing {} candidates interleaved", candidates.size())));
  if (timings.size() != candidates.size() + vendors.size())
    return internal_error("the worker timed another number of candidates");
  return timings;
}

Result<std::vector<Timing>> Worker::time_unverified(const std::vector<LoadedCandidate>& candidates,
                                                    const TimingPolicy& policy) {
  SPARSMITH_ASSIGN_OR_RETURN(
      std::vector<Timing> timings,
      channel_->call_for<std::vector<Timing>>(encode_time_request(candidates, {}, policy, /*unverified=*/true),
                                              fmt::format("timing {} unverified candidates", candidates.size())));
  if (timings.size() != candidates.size()) return internal_error("the worker timed another number of candidates");
  return timings;
}

Result<VendorTiming> Worker::vendor(const std::string& name, const TimingPolicy& policy) {
  return channel_->call_for<VendorTiming>(encode_vendor_request(name, policy), "measuring " + name);
}

}  // namespace sparsmith
