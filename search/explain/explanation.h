// Explains a choice: the best of each family, the pruned configs, the distance to the runner-up, and the bounds that
// the time is near.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cache/records.h"
#include "generator/family.h"
#include "search/choice/tune_report.h"

namespace sparsmith {

struct Explanation {
  struct FamilyRecord {
    std::string name;
    std::int64_t configs = 0;  // that break no rule
    double predicted_us = 0;   // of the best predicted; 0: no config
    std::int64_t tried = 0;    // candidates that have a measurement
    std::int64_t passed = 0;   // of these, verified and timed
    double best_us = 0;        // 0: none passed
    std::string best_config;
  };
  std::vector<FamilyRecord> families;            // fastest first, those that were never timed last
  std::map<std::string, std::int64_t> cuts;      // of the search space, by "family: reason"
  std::map<std::string, std::int64_t> rejected;  // candidates that failed, by reason
  static constexpr std::size_t kMostRejections = 100;
  std::vector<Rejection> rejections;    // each of them, the first ones
  std::int64_t further_rejections = 0;  // that are left out

  std::string structure;  // WeightStructure::text() of the weight; empty: none

  // The fastest other measured config. Times outside of a final have few samples.
  double runner_up_us = 0;  // 0: none
  std::string runner_up;

  // Lower bounds of the time, each by itself, estimated from the device's figures.
  struct Bound {
    std::string name;  // "HBM", "L2 gathers", "tensor cores", "launch"
    double us = 0;
  };
  std::vector<Bound> bounds;  // those that apply to the choice, largest first

  // The share of nonzeros above which dense would win, if the choice's time beyond its launch grew with the nonzeros.
  // 0: not known.
  double flips_at_density = 0;
};

struct ChoiceToExplain {
  std::string config;  // empty: dense stays
  double us = 0;
  double dense_us = 0;            // 0: not known
  std::int64_t weight_bytes = 0;  // of the packing
  std::size_t launches = 1;
};

// `measurements`: what the cache has for the weight at the problem's N; empty where there is no cache.
Explanation explain(const Problem& problem, const SparsityStatistics& statistics, const ChoiceToExplain& choice,
                    const std::vector<MeasurementRecord>& measurements);

}  // namespace sparsmith
