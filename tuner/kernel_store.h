// Compiled kernels of one architecture: each distinct one is compiled once, over the whole run and, through the cache,
// over all runs. One thread at a time; compiling itself uses a pool.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
    double compile_seconds = 0;
  };

  // `compiler` and `cache` may be null: without a compiler only what the cache has is found. Both must outlive the
  // store. `nvrtc_version` is the compiler's.
  KernelStore(const KernelCompiler* compiler, Cache* cache, std::string architecture, int threads);

  // Makes the candidates' kernels ready; what cannot be compiled is remembered as such.
  void ensure(std::span<const Candidate* const> candidates, const KernelCompiler::Progress& progress = {});

  // The kernel, or why there is none. REQUIRES: ensured. The pointer lives as long as the store.
  Result<const CompiledKernel*> find(const KernelSource& kernel) const;

  const Counts& counts() const { return counts_; }
  const std::string& architecture() const { return architecture_; }
  std::string architecture_of(const KernelSource& kernel) const;  // of its binary: "sm_90a" for "sm_90", say
  // Of the compiler; empty without one.
  std::string nvrtc_version() const;

 private:
  std::optional<CompiledKernel> from_cache(const KernelSource& kernel);
  void keep(const KernelSource& kernel, const std::string& config, Result<CompiledKernel> compiled);
  KernelKey key_of(const KernelSource& kernel) const;

  const KernelCompiler* compiler_;
  Cache* cache_;
  std::string architecture_;
  int threads_;
  Counts counts_;
  // By name and closure hash.
  std::map<std::string, Result<CompiledKernel>> kernels_;
};

// Ok, or why a kernel with these figures is not worth timing: it spills more than a few registers, or they do not fit
// its block.
Status check_resources(const CompiledKernel& kernel, const KernelSource& source, int registers_per_sm);

// Of all kernels of a candidate: what a choice stands on.
std::string closure_hash_of(const Candidate& candidate);

}  // namespace sparsmith
