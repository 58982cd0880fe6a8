#include "tuner/compiler_pool.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"
#include "tuner/child_channel.h"
#include "tuner/compiler_protocol.h"
#include "tuner/environment_fault.h"

namespace sparsmith {
namespace {

constexpr std::string_view kName = "the compiler";
constexpr std::string_view kCompiling = "compiling ";

// What the first child may take at least to come up: a library from a slow disk, on a busy machine.
constexpr std::chrono::seconds kPatienceForTheFirst{60};

// Before a kernel is given to another child, where the machine took the first one.
constexpr std::chrono::milliseconds kPause{100};

// A binary, or PTX, of one kernel.
constexpr FrameLimits kReplyLimits = {.header_bytes = 16U << 20, .blobs = 1, .total_bytes = 256ULL << 20};

}  // namespace

class CompilerPool::Child {
 public:
  Child(ChildProcess process, ChildChannel::InterruptedAt interrupted_at)
      : channel_(std::move(process), std::string(kName), std::move(interrupted_at)) {}

  template <class T>
  Result<T> ask_for(const OutgoingMessage& request, const std::string& what, std::chrono::milliseconds timeout) {
    SPARSMITH_ASSIGN_OR_RETURN(Message message, channel_.ask(request, what, timeout, kReplyLimits));
    Result<CompilerReply> reply = decode_compiler_reply(std::move(message));
    if (!reply.ok()) return channel_.refuse_answer(reply.status(), what);
    if (const Status* const error = std::get_if<Status>(&*reply)) return *error;
    if (T* const value = std::get_if<T>(&*reply)) return std::move(*value);
    return channel_.refuse_answer(invalid_input("it answers another question"), what);
  }

  bool is_silent() const { return channel_.is_silent(); }
  bool is_usable(std::int64_t max_resident_bytes) const {
    return channel_.alive() && channel_.resident_bytes() <= max_resident_bytes;
  }

 private:
  ChildChannel channel_;
};

CompilerPool::CompilerPool(Options options) : options_(std::move(options)) {
  if (options_.children <= 0) options_.children = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

CompilerPool::~CompilerPool() = default;

Result<std::unique_ptr<CompilerPool>> CompilerPool::open(const Options& options) {
  std::unique_ptr<CompilerPool> pool(new CompilerPool(options));
  std::string& program = pool->options_.program;
  if (program.empty()) program = program_folder() + "/sparsmith-compiler";
  if (access(program.c_str(), X_OK) != 0) {
    return unsupported(
        fmt::format("the compiler program {} is missing: install the whole tree, it stands beside "
                    "sparsmith",
                    program));
  }
  const auto patience = std::max<std::chrono::milliseconds>(options.timeout, kPatienceForTheFirst);
  for (int attempt = 1;; ++attempt) {
    SPARSMITH_ASSIGN_OR_RETURN(std::unique_ptr<Child> child, pool->take());
    auto reply = child->ask_for<VersionReply>(encode_version_request(), "starting " + program, patience);
    pool->give_back(std::move(child));
    if (reply.ok()) pool->version_ = std::move(reply->version);
    if (reply.ok()) return pool;
    if (reply.status().code() != StatusCode::kIoError || attempt == kEnvironmentAttempts) return reply.status();
  }
}

Result<CompiledKernel> CompilerPool::compile(const KernelSource& kernel, const std::string& architecture) const {
  return ask_for<CompiledKernel>(encode_compile_request(kernel, architecture), kernel.name);
}

Result<std::string> CompilerPool::ptx(const KernelSource& kernel, const std::string& architecture) const {
  SPARSMITH_ASSIGN_OR_RETURN(PtxReply reply, ask_for<PtxReply>(encode_ptx_request(kernel, architecture), kernel.name));
  return std::move(reply.ptx);
}

template <class T>
Result<T> CompilerPool::ask_for(const OutgoingMessage& request, const std::string& kernel) const {
  const std::string what = fmt::format("{}{}", kCompiling, kernel);
  for (int attempt = 1;; ++attempt) {
    Result<std::unique_ptr<Child>> child = take();
    Result<T> reply = child.ok() ? (*child)->ask_for<T>(request, what, options_.timeout) : Result<T>(child.status());
    if (child.ok()) give_back(*std::move(child));
    const bool again = !reply.ok() && is_environment_fault(reply.status()) && attempt < kEnvironmentAttempts &&
                       !(options_.interrupted_at && options_.interrupted_at());
    if (!again) return reply;
    log_debug("{}; once more", reply.status().message());
    std::this_thread::sleep_for(kPause * attempt);
  }
}

int CompilerPool::ended_children() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

Result<std::unique_ptr<CompilerPool::Child>> CompilerPool::start_child() const {
  auto process = ChildProcess::start(options_.program, {});
  if (!process.ok()) return io_error(process.status().message());  // it was there when the pool was opened
  return std::make_unique<Child>(*std::move(process), options_.interrupted_at);
}

Result<std::unique_ptr<CompilerPool::Child>> CompilerPool::take() const {
  std::unique_lock lock(mutex_);
  while (true) {
    given_back_.wait(lock, [&] { return !idle_.empty() || children_ < options_.children; });
    if (!idle_.empty()) {
      std::unique_ptr<Child> child = std::move(idle_.back());
      idle_.pop_back();
      if (child->is_silent()) return child;
      --children_;  // it ended while it had nothing to do, which is not the next kernel's fault
      ++ended_;
      continue;
    }
    ++children_;
    lock.unlock();
    auto child = start_child();
    lock.lock();
    if (child.ok()) return child;
    --children_;
    given_back_.notify_all();
    // The system has no process to spare: those that there are do the work, and every kernel would say the same.
    if (!std::exchange(warned_, true)) log_warning("{}", child.status().message());
    if (children_ == 0) return child.status();
    given_back_.wait(lock, [&] { return !idle_.empty() || children_ == 0; });
  }
}

void CompilerPool::give_back(std::unique_ptr<Child> child) const {
  const bool usable = child->is_usable(options_.max_resident_bytes);
  if (!usable) child.reset();  // before another one is started
  {
    const std::lock_guard lock(mutex_);
    if (usable) {
      idle_.push_back(std::move(child));
    } else {
      --children_;
      ++ended_;
    }
  }
  given_back_.notify_all();
}

CompilerLoss compiler_loss(const std::string& error_message) {
  if (!error_message.starts_with(kCompiling)) return CompilerLoss::kNone;
  const std::size_t end = error_message.find(fmt::format(": {} ", kName));
  if (end == std::string::npos) return CompilerLoss::kNone;
  return error_message.find("gave no answer", end) != std::string::npos ? CompilerLoss::kLate : CompilerLoss::kDied;
}

}  // namespace sparsmith
