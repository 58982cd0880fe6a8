// The search for the fastest candidate of one weight at one N on a device: trials as a strategy proposes them, and a
// final in which the best run interleaved with dense and the vendors.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "search/contenders.h"
#include "search/device_session.h"
#include "search/measurement_log.h"
#include "search/stop_condition.h"
#include "search/strategy.h"

namespace sparsmith {

struct DeviceSearchOptions {
  TimingPolicy policy;
  // Candidates that take far longer than the best are stopped: not where every sample is wanted.
  bool limit = true;
  bool recall = true;  // what the log knows of earlier runs is not tried again
  std::vector<const StopCondition*> stop;
  std::function<void(std::size_t done)> progress;  // may be empty; candidates tried
};

// Measures vendor libraries on the session's weight and N; one that fails is unsupported, with the reason as detail.
std::vector<VendorTiming> measure_vendors(DeviceSession& session, MeasurementLog& log,
                                          const std::vector<std::string>& names, const TimingPolicy& policy);

// REQUIRES: the session has the weight and the tokens. Fills in the contenders' states and timings, and the vendors'
// timings in the final.
//   Returns whether every proposed contender had its turn, as run_strategy().
//   Error: the device is gone and cannot be had again.
Result<bool> search_on_device(DeviceSession& session, MeasurementLog& log, Contenders& contenders, Strategy& strategy,
                              std::vector<VendorTiming>& vendors, const DeviceSearchOptions& options);

// Verifies one contender; a failure rejects it. False when it was rejected.
bool verify_contender(DeviceSession& session, Contender& contender);

}  // namespace sparsmith
