// Times the choices of a tuned file beside the baseline and the vendor libraries. Nothing is searched: the kernels are
// those that the file holds.
#pragma once

#include <cstdint>
#include <vector>

#include "matrix/model_analysis.h"
#include "runtime/tuned_file.h"
#include "search/choice/tune_report.h"
#include "search/tune.h"

namespace sparsmith {

struct TunedTimingOptions {
  std::vector<OperatorKind> kinds;   // empty: every operator
  std::vector<std::int64_t> tokens;  // N; empty: the largest N of each choice
  SelectionOptions selection;        // by name alone
  std::int64_t max_memory = 0;       // for a choice in the emulator; 0: half of the machine's
};

// A report as tune() makes it, of verified choices. Of `options`, timing, vendors and seed count. On the emulator,
// which measures no time, choices are verified alone. `skipped` has the choices that failed, with reasons. Stops early
// when the run is interrupted.
//   Errors: kNoDevice, kDeviceError when the device cannot be had; kNotFound when `which` leaves nothing.
Result<TuneReport> time_tuned(const TunedContents& contents, const TunedTimingOptions& which,
                              const TuneOptions& options, const TuneResources& resources);

}  // namespace sparsmith
