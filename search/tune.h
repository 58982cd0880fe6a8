// The tuning run: every weight, every N, on one device or several of a kind, within a budget.
//
// Weights are prepared (read, selected from, packed, compiled) by threads of their own, ahead of the devices; each
// device has a thread that searches one prepared weight after the other.
//
// Each result is in the cache at once: the run after a killed one goes on where that one ended. A run that is asked to
// stop ends after its current call and reports the results so far.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "search/choice/budget.h"
#include "search/choice/tune_options.h"
#include "search/choice/tune_report.h"
#include "search/record/recorded_space.h"
#include "search/weight_input.h"
#include "tuner/compile/kernel_compiler.h"
#include "tuner/worker.h"

namespace sparsmith {

struct TuneProgress {
  std::size_t weight = 0;    // index
  std::size_t finished = 0;  // weights
  std::size_t weights = 0;
  std::string name;
  std::string stage;  // "compile", "N = 8", ...
  std::size_t done = 0;
  std::size_t total = 0;
};

// Resources of a run. Pointers may be null: without a compiler only cached kernels (and the emulator) run, without a
// cache nothing is remembered. Functions are called by one thread at a time, but for `interrupted` and `now`.
struct TuneResources {
  std::vector<WorkerFactory> workers;  // one for each device, all of one device class; none: nothing runs
  const KernelCompiler* compiler = nullptr;
  Cache* cache = nullptr;
  std::string program_version;
  std::function<Status(const RecordedSpace&)> record;       // receives each searched space; may be empty
  std::function<bool()> interrupted;                        // may be empty
  std::function<void(const TuneProgress&)> progress;        // may be empty
  std::function<void(const WeightResult&)> weight_is_done;  // may be empty
  Budget::Now now;                                          // the budget's clock; empty: the steady one
};

// On a device that cannot time (the emulator), choices are predicted for a typical device of the first architecture
// asked for, sm_90 by default, and the chosen candidates are checked on the emulator. Without workers choices are
// predicted in the same way, and not checked: they compile where there is a compiler, and the cache does not get them.
//   Errors: kInvalidArgument for invalid options, devices of different classes, and members that do not fit together;
//   kInvalidInput when a weight cannot be read; kNoDevice or kDeviceError when a device fails at the start, or all of
//   them fail later. The weight of a lost device goes to another one. A weight that cannot be tuned is skipped with the
//   reason.
Result<TuneReport> tune(std::span<const WeightInput> weights, const TuneOptions& options,
                        const TuneResources& resources);

}  // namespace sparsmith
