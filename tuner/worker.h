// A worker process loads, verifies and times candidates. The tuner uses devices only through it. A candidate can crash
// only the worker: the parent holds no CUDA context and starts another worker.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "generator/candidate.h"
#include "tuner/process/child_channel.h"
#include "tuner/worker_calls.h"

namespace sparsmith {

// One thread at a time. Calls fail with kDeviceError when the child died or stopped answering, and with kIoError when
// another process killed it. After these errors the object is unusable.
class Worker {
 public:
  static constexpr std::chrono::milliseconds kNoLimit = std::chrono::hours(24);

  // Sends a call to the worker and returns its reply, within `limit`.
  using Channel = std::function<Result<WorkerReply>(WorkerCall call, std::chrono::milliseconds limit)>;
  // Compiles kernels for the worker's own use. After an error the worker works without the kernel.
  using Compile = std::function<Result<KernelImage>(const KernelSource& kernel, int compute_capability)>;

  struct Options {
    std::string device = "cuda:0";      // or "emulator"
    std::chrono::seconds timeout{120};  // for one call
    std::string program;                // the worker program; empty: the one installed beside this program
    ChildChannel::InterruptedAt interrupted_at{};
  };
  // Starts a child process, which ends with the object. Errors: kNoDevice when the device or the worker program does
  // not exist; kInvalidArgument for a device that is neither "emulator" nor "cuda:<number>"; kIoError when the machine
  // cannot start a process, or another process kills the child.
  static Result<std::unique_ptr<Worker>> start(const Options& options);
  // A worker at the other end of any channel.
  static Result<std::unique_ptr<Worker>> connect(Channel channel, Compile compile, const std::string& device);

  const DeviceProperties& properties() const { return properties_; }

  // `limit`: after this time the worker counts as hanging. Options::timeout is a further limit.
  template <class Call>
  AnswerTo<Call> call(Call call, std::chrono::milliseconds limit = kNoLimit) {
    SPARSMITH_ASSIGN_OR_RETURN(WorkerReply reply, channel_(WorkerCall(std::move(call)), limit));
    if constexpr (std::is_same_v<typename Call::Reply, Done>) {
      return {};
    } else {
      return std::get<typename Call::Reply>(std::move(reply));
    }
  }

  // Calls that need a kernel of the worker's own. It is compiled in this process.
  Result<DeviceSpeeds> measure_speeds();  // error: kUnsupported on the emulator
  Status check_known_good();
  Status set_weight(const CsrMatrix& matrix, const OperatorSpec& spec);
  // Sends a packing and places it.
  Status add_packing(const PackedWeight& packed);

 private:
  Worker(Channel channel, Compile compile) : channel_(std::move(channel)), compile_(std::move(compile)) {}
  // No value when the kernel does not compile; then `otherwise` is logged.
  std::optional<KernelImage> own_kernel(const Result<KernelSource>& kernel, const char* otherwise) const;

  Channel channel_;
  Compile compile_;
  DeviceProperties properties_;
  std::set<std::string> own_kernels_;  // names of the kernels that were sent or failed to compile
};

// Starts a worker. It is called again after a worker's death.
using WorkerFactory = std::function<Result<std::unique_ptr<Worker>>()>;
inline WorkerFactory worker_factory(const Worker::Options& options) {
  return [options] { return Worker::start(options); };
}

}  // namespace sparsmith
