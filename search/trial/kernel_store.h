// Compiled kernels of one architecture. Each distinct kernel is compiled once in a run and, through the cache, once in
// all runs. Thread-safe: one pool of threads compiles for all callers, first the kernels that a device waits for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cache/cache.h"
#include "generator/candidate.h"
#include "tuner/compile/kernel_compiler.h"

namespace sparsmith {

class KernelStore {
 public:
  struct Counts {
    std::int64_t asked = 0;       // kernels of candidates, with repetitions
    std::int64_t compiled = 0;    // distinct ones that went through NVRTC
    std::int64_t cache_hits = 0;  // distinct ones that the cache had
    std::int64_t failed = 0;
    double compile_seconds = 0;   // of callers waiting for the compiler, summed
    double compiler_seconds = 0;  // of compilers at work, summed
  };

  // Who waits for a kernel.
  enum class Urgency : std::uint8_t {
    kSoon,  // nobody yet
    kNow,   // a device
  };
  using Progress = std::function<void(std::size_t done, std::size_t total)>;

  // `compiler` and `cache` may be null, or they outlive the store. Without a compiler only cached kernels are found.
  // `threads`: of the pool; 0: one a core. A quarter of them compiles for waiting devices only.
  KernelStore(const KernelCompiler* compiler, Cache* cache, std::string architecture, int threads);
  KernelStore(const KernelStore&) = delete;
  KernelStore& operator=(const KernelStore&) = delete;
  ~KernelStore();

  // Queues the candidates' kernels, in order.
  void request(std::span<const Candidate* const> candidates);
  // Moves queued kernels to the front: a device waits for them.
  void hurry(std::span<const Candidate* const> candidates);
  // Queues the kernels and waits for them. Failures are kept too. `progress`: called by this thread, with the kernels
  // that were not ready at first.
  void ensure(std::span<const Candidate* const> candidates, Urgency urgency, const Progress& progress = {});

  // Empties the queues. Waiting callers get the error kIoError.
  void give_up();

  // Ok, or why the machine compiles nothing any more: a known-good kernel fails too. Later failures say nothing about
  // their kernels, and nothing further is compiled.
  Status health() const;
  // The same; and, if all kernels failed to compile, the first one's error.
  Status health_of_all() const;

  // The kernel, or why there is none. REQUIRES: ensure() was called for it. The pointer is valid as long as the store.
  Result<const CompiledKernel*> find(const KernelSource& kernel) const;

  Counts counts() const;
  const std::string& architecture() const { return architecture_; }
  std::string architecture_of(const KernelSource& kernel) const;  // of its binary: "sm_90a" for "sm_90", say
  // Of the compiler; empty without one.
  std::string nvrtc_version() const;

 private:
  struct Missing {
    KernelSource kernel;
    std::string config;  // of the first candidate that asked
  };

  std::optional<CompiledKernel> from_cache(const KernelSource& kernel);
  // Queues the kernels that are new; returns the names of all that are not ready. REQUIRES, as the next ones: the mutex
  // is held.
  std::set<std::string> queue_missing(std::span<const Candidate* const> candidates, Urgency urgency);
  // Moves the kernel from the ordinary queue to the urgent one.
  void promote(const std::string& name);
  void start_threads();
  void keep(const Missing& missing, Result<CompiledKernel> compiled);
  KernelKey key_of(const KernelSource& kernel) const;

  // A thread of the pool.
  void compile_queued();
  bool may_compile_ordinary() const { return !ordinary_.empty() && ordinary_in_work_ < most_ordinary_; }
  // `seconds`: what it took.
  Result<CompiledKernel> compile(const KernelSource& kernel, double& seconds) const;
  // Whether a kernel's failure is the machine's: ok, or why nothing compiles.
  Status check_known_good() const;
  // REQUIRES, both: the mutex is held.
  void drop_queued(const Status& reason);
  void note_failure(const KernelSource& kernel, const Status& error);

  const KernelCompiler* compiler_;
  Cache* cache_;
  std::string architecture_;
  const std::size_t most_threads_;
  const std::size_t most_ordinary_;  // threads that compile what nobody waits for
  mutable std::mutex mutex_;         // guards what follows
  std::condition_variable queued_;
  std::condition_variable compiled_;
  Counts counts_;
  // By name and closure hash.
  std::map<std::string, Result<CompiledKernel>> kernels_;
  std::set<std::string> in_work_;  // in a queue, or with the compiler
  bool given_up_ = false;
  Status health_;
  Status first_failure_;  // that was the kernel's
  std::deque<Missing> urgent_;
  std::deque<Missing> ordinary_;
  std::size_t ordinary_in_work_ = 0;  // with the compiler
  bool stopped_ = false;
  std::vector<std::jthread> threads_;
};

// Ok, or why a kernel is not worth timing: it spills more than a few registers, or its block needs more registers than
// there are.
Status check_resources(const CompiledKernel& kernel, const KernelSource& source, int registers_per_sm);

// The hash of all kernels of a candidate; "" if it has none.
std::string closure_hash_of(const Candidate& candidate);

}  // namespace sparsmith
