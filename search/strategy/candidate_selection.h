// Which configs of the search space are worth compiling for one weight, at all its N at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "generator/search_space.h"

namespace sparsmith {

struct SelectionLimits {
  int candidates = 32;        // of one N, over all its packings
  int packings = 8;           // of one N
  double family_doubt = 2.0;  // a family competes if its best prediction is within this factor of the best
  // Configs predicted to take over this many times as long as dense are left out, but for two. 0: no limit.
  double dense_doubt = 2.5;
  // Packings that might serve every N alone compete if they are predicted to be slower than dense by no more than this
  // factor at any N.
  double common_doubt = 1.1;
  std::vector<std::string> families = {};  // only these; empty: all
};

struct CandidateSelection {
  // Per N, in ascending order of prediction.
  std::map<std::int64_t, std::vector<PredictedConfig>> configs;
  std::map<std::int64_t, SearchSpace> spaces;  // the whole spaces, by N
  std::map<std::string, std::int64_t> cuts;    // by rule, summed over N
  std::int64_t considered = 0;                 // configs that broke no rule, summed over N
};

// At each N these packings compete:
//   - the ones with the best predictions, and the best one of each family within family_doubt. The cost models of
//     different families are not exact against each other. The N's candidates are shared out among them.
//   - with one config each, if it is promising: the packings of the other N, and the packing with the least time over
//   all
//     N. `calls`: how often each of `tokens` is run, of the same length.
//   - with one config each: a few packings predicted to be no slower than dense at any N, so that one packing may serve
//     all N.
CandidateSelection select_candidates(const Problem& problem, const std::vector<std::int64_t>& tokens,
                                     const std::vector<double>& calls, const SparsityStatistics& statistics,
                                     const SelectionLimits& limits);

// The same from given search spaces. `packing_of` names a config's packing. `dense_us`: the predicted time of dense at
// each N; other N are not compared.
CandidateSelection select_from(std::map<std::int64_t, SearchSpace> spaces, const std::map<std::int64_t, double>& calls,
                               const std::function<std::string(const Config&)>& packing_of,
                               const SelectionLimits& limits, const std::map<std::int64_t, double>& dense_us = {});

}  // namespace sparsmith
