// The tuning run: every weight, every N, on one device or several of a kind, within a budget.
//
// Weights are prepared (read, selected from, packed, compiled) by threads of their own, ahead of the devices; each
// device has a thread that searches one prepared weight after the other.
//
// Everything found out is in the cache as soon as it is known: a run that is killed at any moment is continued by the
// next one. A run that is asked to stop ends after what it is measuring and reports what it has.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "search/budget.h"
#include "search/measurer.h"
#include "search/recorded_space.h"
#include "search/tune_options.h"
#include "search/tune_report.h"
#include "search/weight_input.h"
#include "tuner/kernel_compiler.h"

namespace sparsmith {

struct TuneProgress {
  std::size_t weight = 0;    // index of the one that is told of
  std::size_t finished = 0;  // weights
  std::size_t weights = 0;
  std::string name;
  std::string stage;  // "compile", "N = 8", ...
  std::size_t done = 0;
  std::size_t total = 0;
};

// What a run uses. Pointers may be null: without a compiler only cached kernels (and the emulator) run, without a cache
// nothing is remembered. Functions are called by one thread at a time, but for `interrupted` and `now`.
struct TuneResources {
  std::vector<MeasurerFactory> measurers;  // one for each device, all of one device class
  const KernelCompiler* compiler = nullptr;
  Cache* cache = nullptr;
  std::string program_version;
  std::function<Status(const RecordedSpace&)> record;       // takes every space that is searched; may be empty
  std::function<bool()> interrupted;                        // may be empty
  std::function<void(const TuneProgress&)> progress;        // may be empty
  std::function<void(const WeightResult&)> weight_is_done;  // may be empty
  Budget::Now now;                                          // the budget's clock; empty: the steady one
};

// On a device that cannot time (the emulator), choices are predicted for a typical device of the first architecture
// asked for, sm_90 by default, and the chosen candidates are checked on the emulator.
//   Errors: kInvalidArgument for options that make no sense, devices of different classes, and members that do not go
//   together; kInvalidInput when a weight cannot be read; kNoDevice or kDeviceError when a device cannot be had at
//   first, or none of them any more: what one is lost over, another one does. A weight that cannot be tuned is skipped,
//   with the reason.
Result<TuneReport> tune(std::span<const WeightInput> weights, const TuneOptions& options,
                        const TuneResources& resources);

}  // namespace sparsmith
