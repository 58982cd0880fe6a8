// Writes trials to the cache, and finds the trials of earlier runs there. Does nothing without a cache. Failed writes
// are counted by the cache; they cost time, never a result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "tuner/time/timing.h"

namespace sparsmith {

// The identity of a candidate in the cache.
struct CandidateIdentity {
  std::string config;  // or "vendor:cublas"
  std::string packing;
  int packer_version = 0;
  std::string closure_hash;
  double predicted_us = 0;
};

class MeasurementLog {
 public:
  // `cache` may be null, or it outlives the log. `base`: the common part of all records: the problem's key, value hash,
  // device and environment. Reads the measurements of that problem in that environment.
  MeasurementLog(Cache* cache, MeasurementRecord base);

  // begin() before the candidate runs, finish() after it. finish() without a begin() does nothing. `unjudged`: the
  // outcome is the machine's fault.
  void begin(const CandidateIdentity& candidate);
  void finish(MeasurementStatus status, const std::string& reason, const Timing& timing, double error_over_bound,
              bool unjudged = false);

  // The last finished measurement of the candidate with the same code in the same environment. Failures to compile, to
  // load or to fit the memory are not found: they cost little, and may pass another day. A candidate whose process died
  // or was killed is found, as `abandoned`, only after several such losses.
  std::optional<MeasurementRecord> find(const CandidateIdentity& candidate) const;

 private:
  Cache* cache_;
  MeasurementRecord base_;
  std::int64_t running_ = 0;  // row id; 0: none
  struct Known {
    MeasurementRecord last;
    int abandoned = 0;
  };
  std::map<std::string, Known> known_;
};

}  // namespace sparsmith
