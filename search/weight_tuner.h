// The search for one weight: candidates, kernels, race, choice.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "matrix/csr_matrix.h"
#include "search/device_session.h"
#include "search/kernel_store.h"
#include "search/recorded_space.h"
#include "search/transfer.h"
#include "search/tune_options.h"
#include "search/tune_report.h"

namespace sparsmith {

// What the weights of a run share. All pointers outlive the tuner; `cache` may be null.
struct TuneContext {
  const TuneOptions* options = nullptr;
  DeviceSession* session = nullptr;
  KernelStore* kernels = nullptr;
  Cache* cache = nullptr;
  DeviceProperties device;  // that is tuned for: the session's, or, on the emulator, a typical one
  std::string program_version;
  std::function<Status(const RecordedSpace&)> record;   // takes each searched space; empty: not recorded
  std::map<std::string, Transfer>* transfer = nullptr;  // by operator; null: weights learn nothing from each other
  bool predict = false;                                 // the session cannot time: rank by prediction, verify the best
  std::int64_t device_id = 0;
  std::int64_t environment_id = 0;
  // Launches kernels programmatically where the device knows that: the first one of a plan if the options ask for it.
  void launch(LaunchPlan& plan) const {
    if (device.compute_capability >= kProgrammaticFrom) launch_programmatically(plan, options->timing.programmatic);
  }
  std::function<bool()> interrupted;    // the user wants an end
  std::function<bool()> out_of_time;    // for this weight at this N; asked often
  std::function<void()> bucket_begins;  // before each N
  std::function<void(const std::string& stage, std::size_t done, std::size_t total)> progress;
};

// Tunes one weight for every N of the options, and writes the choices to the cache. Adds what it tried to `report`'s
// counts.
//   Error: kUnsupported when there is no choice for some N (no candidate passes and dense was not measured); what stops
//   the run: kNoDevice, kDeviceError.
Result<WeightResult> tune_weight(const TuneContext& context, const std::string& name, const CsrMatrix& matrix,
                                 TuneReport& report);

}  // namespace sparsmith
