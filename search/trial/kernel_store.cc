#include "search/trial/kernel_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "tuner/compile/known_good_kernel.h"
#include "tuner/process/environment_fault.h"

namespace sparsmith {
namespace {

std::string identity(const KernelSource& kernel) { return kernel.name + "|" + kernel.closure_hash; }

std::size_t threads_or_cores(int threads) {
  return threads > 0 ? static_cast<std::size_t>(threads) : std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

KernelStore::KernelStore(const KernelCompiler* compiler, Cache* cache, std::string architecture, int threads)
    : compiler_(compiler),
      cache_(cache),
      architecture_(std::move(architecture)),
      most_threads_(threads_or_cores(threads)),
      most_ordinary_(most_threads_ - most_threads_ / 4) {}

KernelStore::~KernelStore() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  queued_.notify_all();
}

std::string KernelStore::nvrtc_version() const { return compiler_ == nullptr ? "" : compiler_->version(); }

std::string KernelStore::architecture_of(const KernelSource& kernel) const {
  const auto own = sparsmith::architecture_of(kernel, architecture_);
  return own.ok() ? *own : architecture_;
}

KernelKey KernelStore::key_of(const KernelSource& kernel) const {
  return {kernel.name, kernel.closure_hash, architecture_of(kernel), nvrtc_version()};
}

std::optional<CompiledKernel> KernelStore::from_cache(const KernelSource& kernel) {
  if (cache_ == nullptr) return std::nullopt;
  auto found = cache_->find_kernel(key_of(kernel));
  if (!found.ok()) log_debug("the cache was not read: {}", found.status().message());
  if (!found.ok() || !*found) return std::nullopt;
  KernelRecord& record = **found;
  CompiledKernel compiled;
  compiled.name = kernel.name;
  compiled.cubin = std::move(record.cubin);
  compiled.figures = record.figures;
  return compiled;
}

void KernelStore::keep(const Missing& missing, Result<CompiledKernel> compiled) {
  if (!compiled.ok()) {
    ++counts_.failed;
  } else if (cache_ != nullptr) {
    KernelRecord record;
    record.key = key_of(missing.kernel);
    record.config = missing.config;
    record.cubin = compiled->cubin;
    record.figures = compiled->figures;
    (void)cache_->put_kernel(record);  // the cache counts what it cannot write
  }
  kernels_.emplace(identity(missing.kernel), std::move(compiled));
}

std::set<std::string> KernelStore::queue_missing(std::span<const Candidate* const> candidates, Urgency urgency) {
  std::set<std::string> awaited;
  for (const Candidate* candidate : candidates) {
    for (const KernelSource& kernel : candidate->kernels) {
      const std::string name = identity(kernel);
      if (kernels_.contains(name) || awaited.contains(name)) continue;
      if (in_work_.contains(name)) {
        if (urgency == Urgency::kNow) promote(name);
      } else if (auto cached = from_cache(kernel)) {
        ++counts_.cache_hits;
        kernels_.emplace(name, std::move(*cached));
        continue;
      } else if (!health_.ok()) {
        kernels_.emplace(name, health_);
        continue;
      } else {
        in_work_.insert(name);
        (urgency == Urgency::kNow ? urgent_ : ordinary_).push_back({kernel, candidate->config.text()});
      }
      awaited.insert(name);
    }
  }
  return awaited;
}

void KernelStore::promote(const std::string& name) {
  const auto found =
      std::ranges::find(ordinary_, name, [](const Missing& missing) { return identity(missing.kernel); });
  if (found == ordinary_.end()) return;
  urgent_.push_back(std::move(*found));
  ordinary_.erase(found);
}

void KernelStore::start_threads() {
  const std::size_t wanted = std::min(most_threads_, in_work_.size());
  while (threads_.size() < wanted) threads_.emplace_back([this] { compile_queued(); });
  queued_.notify_all();
}

void KernelStore::request(std::span<const Candidate* const> candidates) {
  const std::lock_guard lock(mutex_);
  queue_missing(candidates, Urgency::kSoon);
  start_threads();
}

void KernelStore::hurry(std::span<const Candidate* const> candidates) {
  const std::lock_guard lock(mutex_);
  for (const Candidate* candidate : candidates) {
    for (const KernelSource& kernel : candidate->kernels) promote(identity(kernel));
  }
  queued_.notify_all();
}

void KernelStore::ensure(std::span<const Candidate* const> candidates, Urgency urgency, const Progress& progress) {
  double seconds = 0;
  std::unique_lock lock(mutex_);
  for (const Candidate* candidate : candidates) counts_.asked += static_cast<std::int64_t>(candidate->kernels.size());
  const std::set<std::string> awaited = queue_missing(candidates, urgency);
  start_threads();
  {
    const Stopwatch stopwatch(seconds);
    const auto count_ready = [&] {
      return static_cast<std::size_t>(
          std::ranges::count_if(awaited, [&](const std::string& name) { return kernels_.contains(name); }));
    };
    for (std::size_t told = 0, ready = count_ready(); ready < awaited.size(); ready = count_ready()) {
      if (progress && ready > told) {
        told = ready;
        lock.unlock();
        progress(ready, awaited.size());
        lock.lock();
      } else {
        compiled_.wait(lock);
      }
    }
  }
  counts_.compile_seconds += seconds;
}

void KernelStore::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  drop_queued(io_error("the run ended before this kernel was compiled"));
}

void KernelStore::drop_queued(const Status& reason) {
  for (std::deque<Missing>* const queue : {&urgent_, &ordinary_}) {
    for (const Missing& missing : *queue) {
      const std::string name = identity(missing.kernel);
      kernels_.emplace(name, reason);
      in_work_.erase(name);
    }
    queue->clear();
  }
  compiled_.notify_all();
}

Status KernelStore::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

Status KernelStore::health_of_all() const {
  const std::lock_guard lock(mutex_);
  const bool none = std::ranges::none_of(kernels_, [](const auto& each) { return each.second.ok(); });
  if (!health_.ok() || first_failure_.ok() || !none) return health_;
  return io_error(fmt::format("no kernel compiles: {}", first_failure_.message()));
}

Status KernelStore::check_known_good() const {
  SPARSMITH_ASSIGN_OR_RETURN(const KernelSource kernel, known_good_kernel());
  const Status checked = compiler_->compile(kernel, architecture_).status();
  if (checked.ok()) return {};
  return io_error(
      fmt::format("the machine is at fault, not a kernel: {}; see to the compiler, memory and free space in "
                  "$TMPDIR, then run the same command again",
                  checked.message()));
}

void KernelStore::note_failure(const KernelSource& kernel, const Status& error) {
  log_debug("{}: {}", kernel.name, error.message());
  if (first_failure_.ok() && !is_environment_fault(error)) first_failure_ = error;
}

void KernelStore::compile_queued() {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [this] { return stopped_ || !urgent_.empty() || may_compile_ordinary(); });
    if (stopped_) return;
    const bool ordinary = urgent_.empty();
    std::deque<Missing>& queue = ordinary ? ordinary_ : urgent_;
    const Missing missing = std::move(queue.front());
    queue.pop_front();
    if (ordinary) ++ordinary_in_work_;
    lock.unlock();
    double seconds = 0;
    Result<CompiledKernel> compiled = compile(missing.kernel, seconds);
    lock.lock();
    // What is for another architecture is refused, not compiled; and after an interrupt, compilers are stopped.
    const bool doubtful =
        !compiled.ok() && compiler_ != nullptr && !given_up_ && compiled.status().code() != StatusCode::kUnsupported;
    Status checked;
    if (doubtful) {
      lock.unlock();
      checked = check_known_good();
      lock.lock();
    }
    if (!compiled.ok()) note_failure(missing.kernel, compiled.status());
    if (!checked.ok()) {
      if (health_.ok()) health_ = checked;
      compiled = health_;
      drop_queued(health_);
    }
    counts_.compiler_seconds += seconds;
    if (ordinary) --ordinary_in_work_;
    if (compiler_ != nullptr) ++counts_.compiled;
    keep(missing, std::move(compiled));
    in_work_.erase(identity(missing.kernel));
    compiled_.notify_all();
  }
}

Result<CompiledKernel> KernelStore::compile(const KernelSource& kernel, double& seconds) const {
  if (compiler_ == nullptr) return no_device("NVRTC was not found, and the cache has no binary of this kernel");
  Result<CompiledKernel> compiled = timed(seconds, [&] { return compiler_->compile(kernel, architecture_); });
  if (compiled.ok()) compiled->seconds = seconds;
  return compiled;
}

Result<const CompiledKernel*> KernelStore::find(const KernelSource& kernel) const {
  const std::lock_guard lock(mutex_);
  const auto found = kernels_.find(identity(kernel));
  if (found == kernels_.end()) return internal_error(kernel.name + ": was never asked of the kernel store");
  if (!found->second.ok()) return found->second.status();
  return &*found->second;
}

KernelStore::Counts KernelStore::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

Status check_resources(const CompiledKernel& kernel, const KernelSource& source, int registers_per_sm) {
  // A few registers are spilled around a loop, and time says what that costs; many are spilled inside of it.
  constexpr int kFewBytes = 64;
  if (kernel.figures.spill_store_bytes > kFewBytes) {
    log_debug("{} spills {} bytes", source.name, kernel.figures.spill_store_bytes);
    return unsupported("it spills registers to memory");
  }
  // Registers are given out to warps in units of 256.
  const int per_warp = (kernel.figures.registers * 32 + 255) / 256 * 256;
  const int warps = (source.threads_per_block + 31) / 32;
  if (per_warp * warps > registers_per_sm) return unsupported("its block needs more registers than an SM has");
  return {};
}

std::string closure_hash_of(const Candidate& candidate) {
  if (candidate.kernels.empty()) return "";
  std::string all;
  for (const KernelSource& kernel : candidate.kernels) all += identity(kernel) + "\n";
  return hash_text(all);
}

}  // namespace sparsmith
