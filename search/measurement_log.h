// Writes what is tried to the cache, and remembers what earlier runs tried. Without a cache it does nothing. A cache
// that fails counts what is lost: that costs time, never a result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "tuner/worker.h"

namespace sparsmith {

// What a candidate is known by.
struct CandidateIdentity {
  std::string config;  // or "vendor:cublas"
  std::string packing;
  int packer_version = 0;
  std::string closure_hash;
  double predicted_us = 0;
};

class MeasurementLog {
 public:
  // `cache` may be null; it must outlive the log. `base` holds what all records share: the problem's key, the value
  // hash, the device and the environment. Reads what was measured for that problem in that environment.
  MeasurementLog(Cache* cache, MeasurementRecord base);

  // Before anything of the candidate runs; after it has. finish() without a begin() does nothing. `unjudged`: what came
  // of it is the machine's doing.
  void begin(const CandidateIdentity& candidate);
  void finish(MeasurementStatus status, const std::string& reason, const Timing& timing, double error_over_bound,
              bool unjudged = false);

  // The last finished measurement of that candidate, if it may be trusted: same code, same environment. What failed to
  // compile, to load or to fit the memory is not found: another day it may not fail, and costs little. A candidate
  // whose process died over it, or whose worker others killed, is found only when that came several times: as
  // `abandoned`.
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
