#include "tuner/worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "tuner/compile/kernel_compiler.h"
#include "tuner/compile/known_good_kernel.h"
#include "tuner/process/call_message.h"
#include "tuner/process/child_process.h"
#include "tuner/time/speed_probe.h"
#include "tuner/verify/device_problem.h"
#include "tuner/verify/fingerprint.h"
#include "tuner/verify/reference_kernel.h"

namespace sparsmith {
namespace {

// A reply is only a small header.
constexpr FrameLimits kReplyLimits = {.header_bytes = 64U << 20, .blobs = 0, .total_bytes = 0};

// Compiles each kernel only once in this process, for all workers.
Result<KernelImage> compile_once(const KernelSource& kernel, int compute_capability) {
  static std::mutex mutex;  // guards `images`
  static std::map<std::string, KernelImage> images;
  const std::string architecture = fmt::format("sm_{}", compute_capability);
  const std::lock_guard lock(mutex);
  KernelImage& image = images[kernel.name + " " + architecture];
  if (!image.cubin.empty()) return image;
  SPARSMITH_ASSIGN_OR_RETURN(const std::unique_ptr<KernelCompiler> compiler, KernelCompiler::open());
  SPARSMITH_ASSIGN_OR_RETURN(CompiledKernel compiled, compiler->compile(kernel, architecture));
  image = {kernel.name, kernel.source, std::move(compiled.cubin), kernel.max_shared_bytes};
  return image;
}

// The worker program for a device, and its arguments.
struct WorkerProgram {
  std::vector<std::string> names;  // in the folder of this program; the first that is there
  std::vector<std::string> arguments{};

  std::string path() const {
    for (const std::string& name : names)
      if (std::string path = program_folder() + "/" + name; access(path.c_str(), X_OK) == 0) return path;
    return program_folder() + "/" + names.back();
  }
};

Result<WorkerProgram> program_of(const std::string& device) {
  if (device == "emulator") return WorkerProgram{{"sparsmith-emulator-jit", "sparsmith-emulator"}};
  const std::string ordinal = device.starts_with("cuda:") ? device.substr(5) : "";
  if (ordinal.empty() || ordinal.size() > 3 || ordinal.find_first_not_of("0123456789") != std::string::npos)
    return invalid_argument(fmt::format("device \"{}\" is neither \"emulator\" nor \"cuda:<number>\"", device));
  return WorkerProgram{{"sparsmith-worker"}, {"--device", ordinal}};
}

// Sends a call to a child process.
template <class Call>
Result<WorkerReply> send(ChildChannel& channel, const Call& call, std::chrono::milliseconds timeout) {
  auto reply = ask(channel, call, call.doing(), timeout, kReplyLimits);
  if (!reply.ok() && channel.alive()) {
    // A GPU's context does not outlive an error of a kernel: the next call would fail as well.
    if (reply.status().code() == StatusCode::kDeviceError) channel.give_up("lost its device");
    return reply.status().annotate(call.doing());
  }
  if (!reply.ok()) return reply.status();
  if constexpr (std::is_same_v<Call, TimeCall>) {
    if (reply->size() != call.candidates.size() + call.vendors.size())
      return internal_error("the worker timed another number of candidates");
  }
  return WorkerReply(*std::move(reply));
}

}  // namespace

std::string kernel_names(const CompiledCandidate& candidate) {
  std::string names;
  for (const KernelImage& kernel : candidate.kernels) names += (names.empty() ? "" : ", ") + kernel.name;
  return names;
}

std::string TimeCall::doing() const {
  if (candidates.size() == 1 && vendors.empty() && !unverified) return "timing " + kernel_names(candidates.front());
  return fmt::format("timing {} {}", candidates.size(),
                     unverified ? "unverified candidates" : "candidates interleaved");
}

Result<std::unique_ptr<Worker>> Worker::start(const Options& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const WorkerProgram program, program_of(options.device));
  const std::string path = options.program.empty() ? program.path() : options.program;
  SPARSMITH_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::start(path, program.arguments));
  const auto child_channel = std::make_shared<ChildChannel>(std::move(child), "the worker", options.interrupted_at);
  const Channel channel = [child_channel, longest = options.timeout](const WorkerCall& call,
                                                                     std::chrono::milliseconds limit) {
    const auto timeout = std::min<std::chrono::milliseconds>(longest, limit);
    return std::visit([&](const auto& typed) { return send(*child_channel, typed, timeout); }, call);
  };
  return connect(channel, compile_once, options.device);
}

Result<std::unique_ptr<Worker>> Worker::connect(Channel channel, Compile compile, const std::string& device) {
  std::unique_ptr<Worker> worker(new Worker(std::move(channel), std::move(compile)));
  SPARSMITH_ASSIGN_OR_RETURN(worker->properties_, worker->call(PropertiesCall{device}));
  return worker;
}

std::optional<KernelImage> Worker::own_kernel(const Result<KernelSource>& kernel, const char* otherwise) const {
  Result<KernelImage> image = kernel.ok() ? compile_(*kernel, properties_.compute_capability) : kernel.status();
  if (image.ok()) return *std::move(image);
  log_debug("{}: {}", otherwise, image.status().to_string());
  return std::nullopt;
}

Result<DeviceSpeeds> Worker::measure_speeds() {
  if (properties_.is_emulator) return call(SpeedsCall{});
  return call(SpeedsCall{own_kernel(speed_probe_kernel(), "of the device only the memory is measured")});
}

Status Worker::check_known_good() {
  SPARSMITH_ASSIGN_OR_RETURN(const KernelSource source, known_good_kernel());
  if (!properties_.is_emulator) return call(KnownGoodCall{own_kernel(source, "memory alone is written and read")});
  static std::atomic<int> calls = 0;  // another text each time: what is loaded is not compiled again
  const std::string text = fmt::format("{}\n// call {}\n", source.source, ++calls);
  return call(KnownGoodCall{KernelImage{source.name, text, {}, 0}});
}

Status Worker::set_weight(const CsrMatrix& matrix, const OperatorSpec& spec) {
  const DataType type = spec.type;
  const std::tuple<std::string, std::function<Result<KernelSource>()>, const char*> kernels[] = {
      {reference_kernel_name(spec), [&] { return reference_kernel(spec); },
       "the fp64 reference is computed on the CPU"},
      {output_comparison_kernel_name(type), [&] { return output_comparison_kernel(type); },
       "outputs are compared on the CPU"},
      {kFingerprintKernel, fingerprint_kernel, "packed weights are read back after each candidate"}};
  for (const auto& [name, source, otherwise] : kernels) {
    if (properties_.is_emulator || !own_kernels_.insert(name).second) continue;
    std::optional<KernelImage> image = own_kernel(source(), otherwise);
    if (image) SPARSMITH_RETURN_IF_ERROR(call(OwnKernelCall{*std::move(image)}));
  }
  return call(WeightCall{matrix, spec});
}

Status Worker::add_packing(const PackedWeight& packed) {
  SPARSMITH_RETURN_IF_ERROR(call(PackingCall{packed}));
  return call(PlacePackingCall{packed.packing});
}

}  // namespace sparsmith
