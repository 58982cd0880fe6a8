// A device for tests of the search: how fast, wrong or deadly each candidate is stands in a script.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tuner/compile/kernel_compiler.h"
#include "tuner/worker.h"

namespace sparsmith {

// What happened on the device, over all workers that were started; several at once take turns (device_turn.h).
// Candidates without a kernel, which are a library's product, are always right, and are in none of the counts.
struct DeviceScript {
  DeviceProperties properties = typical_device(90);
  // Microseconds of a candidate that is not dense; by default from its kernel's name, between 5 and 10.
  std::function<double(const CompiledCandidate&)> time_us;
  std::function<bool(const CompiledCandidate&)> is_wrong;  // its output
  std::function<bool(const CompiledCandidate&)> kills;     // the worker, when verified
  // What else goes wrong with a candidate.
  enum class Fault : std::uint8_t {
    kNone,
    kIllegalAccess,  // takes the worker down when it is verified
    kDiesWhenTimed,
    kEndlessLoop,  // no answer
    kOutOfMemory,
    kWrongResult,
    kNotCompiled,  // nothing that the device sees: for CompilerScript::fails
  };
  std::function<Fault(const CompiledCandidate&)> fault;
  std::vector<std::string> breaking{};        // algorithms of cusparselt that break the context, in that order
  std::string hanging{};                      // a library that gives no answer
  std::vector<std::string> vendor_without{};  // that the last library call left out
  double dense_us = 20;                       // of the first proposal, 1 % more for each one behind it; 0: no library
  std::function<void()> before_verify;        // called each time
  bool gone = false;                          // no worker can be started any more
  // Faults of the machine: what verifying a candidate ends with, and what the known-good kernel does.
  std::function<Status(const CompiledCandidate&)> machine_fault;
  std::function<Status()> known_good;

  std::int64_t tokens = 0;  // that were set last

  std::map<std::string, std::int64_t> packed_bytes;  // of the packings that were added last, by name
  int probed = 0;
  int starts = 0;
  int weights_set = 0;
  int verified = 0;
  std::vector<int> verified_each;  // of each weight that was set, in that order
  int timed = 0;
  int vendors_timed = 0;
  int finals = 0;
  std::vector<std::string> timed_unverified;      // kernel names
  std::mutex mutex;                               // of what takes no turn: weights and packings that are sent
  std::vector<std::chrono::milliseconds> limits;  // of candidates' calls
  std::vector<std::string> deaths;                // kernel names
};

// `script` must outlive the workers.
WorkerFactory scripted_workers(DeviceScript& script);

// Compiles nothing: a cubin that is the kernel's name. `compiled` counts by name; `spills` says which spill. Any number
// of threads.
struct CompilerScript {
  std::function<void(const std::string& name)> before;  // called on each thread that compiles
  std::map<std::string, int> compiled;
  std::function<bool(const std::string& name)> spills;
  std::function<bool(const std::string& name)> fails;
  std::function<Status(const std::string& name)> error;  // that compiling it ends with, or ok
  std::function<Status()> known_good;                    // the same of the known-good kernel, which nothing else hits
};
std::unique_ptr<KernelCompiler> scripted_compiler(CompilerScript& script);

}  // namespace sparsmith
