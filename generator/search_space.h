// Configs worth trying for a problem, best prediction first.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "generator/family.h"

namespace sparsmith {

struct PredictedConfig {
  Config config;
  double predicted_us = 0;
};

struct SearchSpace {
  std::vector<PredictedConfig> configs;  // in ascending order of predicted_us
  // How often each rule cut the search, by "family: reason". One cut may stand for many configs.
  std::map<std::string, std::int64_t> cuts;
};

// The search space of all families except the baseline, or of one family. The search chooses parameter by parameter and
// leaves a branch as soon as it breaks a rule. So it never enumerates the whole product.
SearchSpace search_space(const Problem& problem, const SparsityStatistics& statistics);
SearchSpace search_space(const Family& family, const Problem& problem, const SparsityStatistics& statistics);

// The configs with which configs of other families are compared, whatever the weight's pattern.
SearchSpace baseline_space(const Problem& problem);
// Predicted microseconds of the best baseline config; 0: no baseline serves the operator.
double baseline_us(const Problem& problem);

}  // namespace sparsmith
