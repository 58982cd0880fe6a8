// Compiled kernels of one architecture: each distinct one is compiled once, over the whole run and, through the cache,
// over all runs. Thread-safe; compiling itself uses a pool.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "generator/candidate.h"
#include "tuner/kernel_compiler.h"

namespace sparsmith {

class KernelStore {
 public:
  struct Counts {
    std::int64_t asked = 0;       // kernels of candidates, with repetitions
    std::int64_t compiled = 0;    // distinct ones that went through NVRTC
    std::int64_t cache_hits = 0;  // distinct ones that the cache had
    std::int64_t failed = 0;
    double compile_seconds = 0;  // that callers waited for the compiler, summed
  };

  // `compiler` and `cache` may be null: without a compiler only what the cache has is found. Both must outlive the
  // store. `nvrtc_version` is the compiler's.
  KernelStore(const KernelCompiler* compiler, Cache* cache, std::string architecture, int threads);

  // Makes the candidates' kernels ready; what cannot be compiled is remembered as such. What another thread is
  // compiling is waited for.
  void ensure(std::span<const Candidate* const> candidates, const KernelCompiler::Progress& progress = {});

  // The kernel, or why there is none. REQUIRES: ensured. The pointer lives as long as the store.
  Result<const CompiledKernel*> find(const KernelSource& kernel) const;

  Counts counts() const;
  const std::string& architecture() const { return architecture_; }
  std::string architecture_of(const KernelSource& kernel) const;  // of its binary: "sm_90a" for "sm_90", say
  // Of the compiler; empty without one.
  std::string nvrtc_version() const;

 private:
  std::optional<CompiledKernel> from_cache(const KernelSource& kernel);
  struct Missing {
    KernelSource kernel;
    std::string config;  // of the first candidate that asked
  };
  // What this thread is to compile; `others` gets what other threads are at. REQUIRES: the mutex is held.
  std::vector<Missing> claim(std::span<const Candidate* const> candidates, std::set<std::string>& others);
  void keep(const Missing& missing, Result<CompiledKernel> compiled);
  KernelKey key_of(const KernelSource& kernel) const;

  const KernelCompiler* compiler_;
  Cache* cache_;
  std::string architecture_;
  int threads_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable compiled_;
  Counts counts_;
  // By name and closure hash.
  std::map<std::string, Result<CompiledKernel>> kernels_;
  std::set<std::string> in_work_;
};

// Ok, or why a kernel with these figures is not worth timing: it spills more than a few registers, or they do not fit
// its block.
Status check_resources(const CompiledKernel& kernel, const KernelSource& source, int registers_per_sm);

// Of all kernels of a candidate: what a choice stands on.
std::string closure_hash_of(const Candidate& candidate);

}  // namespace sparsmith
