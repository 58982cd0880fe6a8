// A candidate on its way through a search.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/records.h"
#include "generator/candidate.h"
#include "search/measurement_log.h"
#include "tuner/worker.h"

namespace sparsmith {

struct Contender {
  Candidate candidate;
  LoadedCandidate loaded;
  CandidateIdentity identity;
  std::int64_t packed_bytes = 0;
  bool incumbent = false;  // an earlier run chose it: it stays in to the final
  bool baseline = false;   // of the family that others are compared with

  enum class State : std::uint8_t { kWaiting, kTimed, kRejected };
  State state = State::kWaiting;
  MeasurementStatus status = MeasurementStatus::kRunning;
  std::string reason;     // why it was rejected
  bool unjudged = false;  // for a fault of the machine, which says nothing of it: the choice is not complete
  Verification verification;
  Timing timing;
  bool in_final = false;
  bool recalled = false;  // its timing so far comes from an earlier run
  int verified_in = -1;   // DeviceSession::epoch() when it was verified

  // All that was measured, in order, where `timing` is the last: of its trials, and of the final.
  std::vector<float> samples_us;
  std::vector<float> final_us;
  // Seconds that it cost. Packings and kernels are shared: only who was first pays for them.
  struct Costs {
    double pack = 0;
    double compile = 0;
    double verify = 0;
    double time = 0;
  };
  Costs seconds;
};

}  // namespace sparsmith
