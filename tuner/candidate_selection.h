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
  int packings = 4;                   // packings that compete for a weight
  bool exhaustive = false;            // no limits
  std::vector<std::string> families;  // only these; empty: every one
};

struct CandidateSelection {
  struct Packing {
    std::string name;
    Config config;  // one that reads it: what it is packed with
  };
  std::vector<Packing> packings;  // best predicted sum over all N first
  // Per N, in ascending order of prediction; every packing has its share where it has configs for that N.
  std::map<std::int64_t, std::vector<SearchSpace::Entry>> entries;
  std::map<std::string, std::int64_t> cuts;  // by rule, summed over N
  std::int64_t considered = 0;               // configs that broke no rule, summed over N
};

// `calls`: how often each of `tokens` is run, same length. Packings are ranked by their best predicted time summed over
// all N by calls; one that has no config for some N comes after all that have.
CandidateSelection select_candidates(const Problem& problem, const std::vector<std::int64_t>& tokens,
                                     const std::vector<double>& calls, const SparsityStatistics& statistics,
                                     const SelectionLimits& limits);

// The same from search spaces that are already there, `packing_of` naming a config's packing.
CandidateSelection select_from(std::map<std::int64_t, SearchSpace> spaces, const std::map<std::int64_t, double>& calls,
                               const std::function<std::string(const Config&)>& packing_of,
                               const SelectionLimits& limits);

}  // namespace sparsmith
