// Configs worth a try for a problem, best prediction first.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "generator/family.h"

namespace sparsmith {

struct SearchSpace {
  struct Entry {
    Config config;
    double predicted_us = 0;
  };
  std::vector<Entry> entries;  // in ascending order of predicted_us
  // How often each rule cut the search, by "family: reason". One cut may stand for many configs.
  std::map<std::string, std::int64_t> cuts;
};

// Of all families but the baseline. Chooses parameter by parameter and leaves a branch as soon as a rule is broken, so
// the whole product is never enumerated.
SearchSpace search_space(const Problem& problem, const SparsityStatistics& statistics);
SearchSpace search_space(const Family& family, const Problem& problem, const SparsityStatistics& statistics);

// What configs of other families are compared with, whatever the weight's pattern.
SearchSpace baseline_space(const Problem& problem);
// Microseconds that the best of it is predicted to take; 0: no baseline serves the operator.
double baseline_us(const Problem& problem);

}  // namespace sparsmith
