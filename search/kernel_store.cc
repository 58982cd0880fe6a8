#include "search/kernel_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/stopwatch.h"

namespace sparsmith {
namespace {

std::string identity(const KernelSource& kernel) { return kernel.name + "|" + kernel.closure_hash; }

}  // namespace

KernelStore::KernelStore(const KernelCompiler* compiler, Cache* cache, std::string architecture, int threads)
    : compiler_(compiler), cache_(cache), architecture_(std::move(architecture)), threads_(threads) {}

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
    const Status status = cache_->put_kernel(record);
    if (!status.ok()) log_debug("the cache was not written: {}", status.message());
  }
  kernels_.emplace(identity(missing.kernel), std::move(compiled));
}

std::vector<KernelStore::Missing> KernelStore::claim(std::span<const Candidate* const> candidates,
                                                     std::set<std::string>& others) {
  std::vector<Missing> missing;
  std::set<std::string> claimed;
  for (const Candidate* candidate : candidates) {
    for (const KernelSource& kernel : candidate->kernels) {
      ++counts_.asked;
      const std::string name = identity(kernel);
      if (kernels_.contains(name) || claimed.contains(name)) continue;
      if (in_work_.contains(name)) {
        others.insert(name);
      } else if (auto cached = from_cache(kernel)) {
        ++counts_.cache_hits;
        kernels_.emplace(name, std::move(*cached));
      } else {
        claimed.insert(name);
        missing.push_back({kernel, candidate->config.text()});
      }
    }
  }
  in_work_.merge(claimed);
  return missing;
}

void KernelStore::ensure(std::span<const Candidate* const> candidates, const KernelCompiler::Progress& progress) {
  std::unique_lock lock(mutex_);
  std::set<std::string> others;
  const std::vector<Missing> missing = claim(candidates, others);
  if (!missing.empty()) {
    std::vector<KernelSource> sources;
    for (const Missing& each : missing) sources.push_back(each.kernel);
    std::map<std::string, Result<CompiledKernel>> compiled;
    double seconds = 0;
    if (compiler_ != nullptr) {
      lock.unlock();
      {
        const Stopwatch stopwatch(seconds);
        compiled = compiler_->compile_all(sources, architecture_, threads_, progress);
      }
      lock.lock();
      counts_.compiled += static_cast<std::int64_t>(missing.size());
      counts_.compile_seconds += seconds;
    }
    for (const Missing& each : missing) {
      const auto found = compiled.find(each.kernel.name);
      keep(each,
           found != compiled.end()
               ? std::move(found->second)
               : Result<CompiledKernel>(no_device("NVRTC was not found, and the cache has no binary of this kernel")));
      in_work_.erase(identity(each.kernel));
    }
    compiled_.notify_all();
  }
  compiled_.wait(lock, [&] {
    return std::ranges::all_of(others, [&](const std::string& name) { return kernels_.contains(name); });
  });
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
  std::string all;
  for (const KernelSource& kernel : candidate.kernels) all += identity(kernel) + "\n";
  return hash_text(all);
}

}  // namespace sparsmith
