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
  int candidates = 32;                // for one N, over all packings
  int packings = 4;                   // packings that compete for a weight by their sum over all N
  double family_doubt = 2.5;          // a family predicted to be slower than the best by no more than this competes
  bool exhaustive = false;            // no limits
  std::vector<std::string> families;  // only these; empty: every one
};

struct CandidateSelection {
  struct Packing {
    std::string name;
    Config config;  // one that reads it: what it is packed with
  };
  std::vector<Packing> packings;  // by predicted sum over all N, then those that one N asked for
  // Per N, in ascending order of prediction; every packing has its share where it has configs for that N.
  std::map<std::int64_t, std::vector<SearchSpace::Entry>> entries;
  std::map<std::string, std::int64_t> cuts;  // by rule, summed over N
  std::int64_t considered = 0;               // configs that broke no rule, summed over N
};

// `calls`: how often each of `tokens` is run, same length. Packings are ranked by their best predicted time summed over
// all N by calls; one that has no config for some N comes after all that have. Beside those, each family that is within
// family_doubt of the best at some N competes with its best packing for that N: a family may serve a few N only, and
// the cost models of different families are not exact against each other.
CandidateSelection select_candidates(const Problem& problem, const std::vector<std::int64_t>& tokens,
                                     const std::vector<double>& calls, const SparsityStatistics& statistics,
                                     const SelectionLimits& limits);

// The same from search spaces that are already there, `packing_of` naming a config's packing.
CandidateSelection select_from(std::map<std::int64_t, SearchSpace> spaces, const std::map<std::int64_t, double>& calls,
                               const std::function<std::string(const Config&)>& packing_of,
                               const SelectionLimits& limits);

}  // namespace sparsmith
