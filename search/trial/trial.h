// A candidate on its way through a search: made, compiled, verified, timed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/records.h"
#include "generator/candidate.h"
#include "generator/family.h"
#include "search/trial/kernel_store.h"
#include "search/trial/measurement_log.h"
#include "tuner/compile/kernel_compiler.h"
#include "tuner/time/timing.h"
#include "tuner/verify/verification.h"

namespace sparsmith {

struct Trial {
  Candidate candidate;
  CompiledCandidate loaded;
  CandidateIdentity identity;
  std::int64_t packed_bytes = 0;
  bool incumbent = false;  // chosen by an earlier run: it reaches the final in any case
  bool baseline = false;   // of the family that the others are compared with

  enum class State : std::uint8_t { kWaiting, kTimed, kRejected };
  State state = State::kWaiting;
  MeasurementStatus status = MeasurementStatus::kRunning;
  std::string reason;     // why it was rejected
  bool unjudged = false;  // rejected for a fault of the machine: the choice is incomplete
  Verification verification;
  Timing timing;
  // Of a baseline that gathers sddmm's values: the library's product alone, which is what a dense layer takes, and its
  // prediction. No time: not measured.
  std::optional<Timing> product;
  double predicted_product_us = 0;
  bool in_final = false;
  bool recalled = false;  // `timing` is of an earlier run
  int verified_in = -1;   // DeviceSession::epoch() when it was verified

  // All samples in order, before and in the final. `timing` has the last ones.
  std::vector<float> samples_us;
  std::vector<float> final_us;
  // Seconds. The first trial that uses a packing or a kernel pays for it.
  struct Costs {
    double pack = 0;
    double compile = 0;
    double verify = 0;
    double time = 0;
  };
  Costs seconds;

  void reject(MeasurementStatus why, std::string because);
  // Rejects for a worker's error.
  void reject(const Status& error);
  // Rejects for an error before the worker has seen the candidate.
  void reject_unseen(const Status& error);
};

// A rejected candidate, for reports.
struct Rejection {
  std::string config;
  std::string family;
  std::string outcome;  // a class of reasons: "too slow", "does not compile"
  std::string reason;   // in full
};

// The beginning of the reason of a candidate that did not fit the device.
inline constexpr std::string_view kOutOfDeviceMemory = "out of device memory";

// As Family::generate(). `programmatic`: the first launch of the plan is programmatic too, where the device knows that.
Result<Candidate> generate_candidate(const Config& config, const Problem& problem, const PackedWeight& packed,
                                     bool programmatic);

// Whether the candidate gathers sddmm's values from a library's product.
bool gathers(const Candidate& candidate);
// The product alone. Its outputs are not there: it is only timed.
CompiledCandidate product_of(const CompiledCandidate& candidate);

// The candidate as a worker takes it, still without binaries: enough for the emulator.
CompiledCandidate loaded_candidate(const Candidate& candidate);

// Puts the kernels' binaries in. Rejects the trial where a kernel does not compile, spills much, or needs more
// registers than `device` has.
void attach_binaries(const KernelStore& kernels, const DeviceProperties& device, Trial& trial);

}  // namespace sparsmith
