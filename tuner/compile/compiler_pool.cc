#include "tuner/compile/compiler_pool.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"
#include "tuner/compile/compiler_calls.h"
#include "tuner/process/call_message.h"
#include "tuner/process/environment_fault.h"

namespace sparsmith {
namespace {

constexpr std::string_view kName = "the compiler";
constexpr std::string_view kCompiling = "compiling ";

// The minimum time limit for the first child's start: the library may come from a slow disk, on a busy machine.
constexpr std::chrono::seconds kPatienceForTheFirst{60};

// The pause before another child tries a kernel, after the machine killed the first child.
constexpr std::chrono::milliseconds kPause{100};

// A reply is a binary or the PTX of one kernel.
constexpr FrameLimits kReplyLimits = {.header_bytes = 16U << 20, .blobs = 1, .total_bytes = 256ULL << 20};

}  // namespace

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
  SPARSMITH_ASSIGN_OR_RETURN(pool->version_, pool->ask(VersionCall{}, "starting " + program, patience));
  return pool;
}

Result<CompiledKernel> CompilerPool::compile(const KernelSource& kernel, const std::string& architecture) const {
  return ask(CompileCall{{kernel, architecture}}, fmt::format("{}{}", kCompiling, kernel.name), options_.timeout);
}

Result<std::string> CompilerPool::ptx(const KernelSource& kernel, const std::string& architecture) const {
  return ask(PtxCall{{kernel, architecture}}, fmt::format("{}{}", kCompiling, kernel.name), options_.timeout);
}

template <class Call>
Result<typename Call::Reply> CompilerPool::ask(const Call& call, const std::string& what,
                                               std::chrono::milliseconds timeout) const {
  for (int attempt = 1;; ++attempt) {
    Result<std::unique_ptr<ChildChannel>> child = take();
    auto reply = child.ok() ? sparsmith::ask(**child, call, what, timeout, kReplyLimits) : child.status();
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

Result<std::unique_ptr<ChildChannel>> CompilerPool::start_child() const {
  auto process = ChildProcess::start(options_.program, {});
  if (!process.ok()) return io_error(process.status().message());  // it was there when the pool was opened
  return std::make_unique<ChildChannel>(*std::move(process), std::string(kName), options_.interrupted_at);
}

Result<std::unique_ptr<ChildChannel>> CompilerPool::take() const {
  std::unique_lock lock(mutex_);
  while (true) {
    given_back_.wait(lock, [&] { return !idle_.empty() || children_ < options_.children; });
    if (!idle_.empty()) {
      std::unique_ptr<ChildChannel> child = std::move(idle_.back());
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

void CompilerPool::give_back(std::unique_ptr<ChildChannel> child) const {
  const bool usable = child->alive() && child->resident_bytes() <= options_.max_resident_bytes;
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
