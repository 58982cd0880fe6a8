// The search for the fastest candidate of one weight at one N on a device: trials as a strategy proposes them, and a
// final in which the best run interleaved with the baseline and the vendors.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "search/contenders.h"
#include "search/device_session.h"
#include "search/measurement_log.h"
#include "search/strategy_run.h"

namespace sparsmith {

struct DeviceSearchOptions {
  TimingPolicy policy;
  // Candidates that take far longer than the best are stopped: not where every sample is wanted.
  bool limit = true;
  bool recall = true;                              // what the log knows of earlier runs is not tried again
  std::vector<std::string> vendors;                // measured in the final
  std::vector<const StopCondition*> stop;          // outlive the search
  std::function<void(std::size_t done)> progress;  // may be empty; candidates tried
};

// Goes in rounds, so that the device may try what one search asks for while another one's candidates are prepared.
// Fills in the contenders' states and timings, and the vendors' timings in the final. What it is given outlives it.
class DeviceSearch : private TrialBench {
 public:
  DeviceSearch(MeasurementLog& log, Contenders& contenders, Strategy& strategy, DeviceSearchOptions options);

  // Asks the strategy for candidates. False: nothing is left but the final.
  bool propose() { return run_.propose(); }
  // Their points.
  std::vector<std::size_t> proposed() const;

  // REQUIRES, both: the session has the weight and the tokens. Error: the device is gone and cannot be had again.
  //
  // Tries what was proposed and has been made and compiled.
  Status attempt(DeviceSession& session);
  // Measures the vendors as well. Returns whether every proposed contender had its turn.
  Result<bool> final(DeviceSession& session, std::vector<VendorTiming>& vendors);

 private:
  bool known(const Proposal& proposal) override;
  Result<TrialOutcome> attempt(const Proposal& proposal) override;

  void note_best(double us);
  void limit_candidates();
  double limit_us(const Contender& contender) const;
  TimingPolicy policy(int replays) const;
  Status first_turn(Contender& contender, int replays);
  bool recall(Contender& contender) const;
  void sample(Contender& contender, TimingPolicy policy);
  bool verify(Contender& contender);
  std::vector<std::size_t> standing();
  Status interleave_best(std::vector<VendorTiming>& vendors);
  void alone(const std::vector<Contender*>& finalists);

  MeasurementLog& log_;
  Contenders& contenders_;
  const DeviceSearchOptions options_;
  StrategyRun run_;
  DeviceSession* session_ = nullptr;  // of the call
  double best_us_ = 0;                // of all that was measured; 0: nothing yet
  std::set<std::size_t> tried_;
};

// Verifies one contender; a failure rejects it. False when it was rejected.
bool verify_contender(DeviceSession& session, Contender& contender);

}  // namespace sparsmith
