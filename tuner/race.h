// The race of one weight's candidates at one N: a few samples each, those clearly slower drop out, more samples for the
// rest, and a final in which the best run interleaved with dense and the vendors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "generator/candidate.h"
#include "tuner/device_session.h"
#include "tuner/measurement_log.h"

namespace sparsmith {

// A candidate on its way through the race.
struct Contender {
  Candidate candidate;
  LoadedCandidate loaded;
  CandidateIdentity identity;
  bool incumbent = false;  // an earlier run chose it: it stays in to the final
  bool dense = false;      // the baseline, a dense product and its epilogue: it stays in to the final

  enum class State : std::uint8_t { kWaiting, kTimed, kRejected };
  State state = State::kWaiting;
  MeasurementStatus status = MeasurementStatus::kRunning;
  std::string reason;  // why it was rejected
  Verification verification;
  Timing timing;
  bool in_final = false;
  bool recalled = false;  // its timing so far comes from an earlier run
  int verified_in = -1;   // DeviceSession::restarts() when it was verified
};

struct RaceOptions {
  TimingPolicy policy;
  int short_replays = 3;
  int longer_replays = 7;
  double keep_within = 1.25;  // of the best median
  int finalists = 6;
  // True: no time is left. Dense and the first other contender are tried in any case, and the final is held among what
  // was timed.
  std::function<bool()> stop;
  std::function<void(std::size_t done, std::size_t total)> progress;
};

// Measures vendor libraries on the session's weight and N; one that fails is unsupported, with the reason as detail.
std::vector<VendorTiming> measure_vendors(DeviceSession& session, MeasurementLog& log,
                                          const std::vector<std::string>& names, const TimingPolicy& policy);

// REQUIRES: the session has the weight, every packing of the contenders, and the tokens. Contenders come in the order
// in which they are tried. Fills in their states and timings, and the vendors' timings in the final.
//   Returns whether every contender had its turn.
//   Error: the device is gone and cannot be had again.
Result<bool> run_race(DeviceSession& session, MeasurementLog& log, std::vector<Contender>& contenders,
                      std::vector<VendorTiming>& vendors, const RaceOptions& options);

// Verifies one contender; a failure rejects it. False when it was rejected.
bool verify_contender(DeviceSession& session, Contender& contender);

}  // namespace sparsmith
