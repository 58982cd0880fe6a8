// Writes what is tried to the cache, and remembers what earlier runs tried. Without a cache, or with one that fails, it
// does nothing: losing a record costs time, never a result.
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

  // Before anything of the candidate runs; after it has. finish() without a begin() does nothing.
  void begin(const CandidateIdentity& candidate);
  void finish(MeasurementStatus status, const std::string& reason, const Timing& timing, double error_over_bound);

  // The last finished measurement of that candidate, if it may be trusted: same code, same environment. A candidate
  // whose process died over it is not found the first time, since the process may have been killed for other reasons.
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
