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
  int candidates = 32;        // for one N, over the packings that it asks for
  int packings = 8;           // that one N asks for
  double family_doubt = 2.0;  // a family predicted to be slower than the best by no more than this competes
  // Where configs are predicted to take over so many times what dense is, two of them are looked at; 0: no limit.
  double dense_doubt = 2.5;
  std::vector<std::string> families = {};  // only these; empty: every one
};

struct CandidateSelection {
  struct Packing {
    std::string name;
    Config config;  // one that reads it: what it is packed with
  };
  std::vector<Packing> packings;  // by predicted sum over all N
  // Per N, in ascending order of prediction.
  std::map<std::int64_t, std::vector<SearchSpace::Entry>> entries;
  std::map<std::int64_t, SearchSpace> spaces;  // that they were selected from
  std::map<std::string, std::int64_t> cuts;    // by rule, summed over N
  std::int64_t considered = 0;                 // configs that broke no rule, summed over N
};

// Each N asks for the packings that are best there by prediction, and for the best of each family that is within
// family_doubt of the best: a family may serve a few N only, and the cost models of different families are not exact
// against each other. Its candidates are shared out among those. What others ask for, and the packing with the least
// sum over all N (`calls`: how often each of `tokens` is run, same length), competes with one config where that is
// promising; and so do a few that are predicted to be no slower than dense at any N: so that few packings, or one, may
// serve all N.
CandidateSelection select_candidates(const Problem& problem, const std::vector<std::int64_t>& tokens,
                                     const std::vector<double>& calls, const SparsityStatistics& statistics,
                                     const SelectionLimits& limits);

// The same from search spaces that are already there, `packing_of` naming a config's packing. dense_us: what dense is
// predicted to take at each N; of those that are missing it is not known.
CandidateSelection select_from(std::map<std::int64_t, SearchSpace> spaces, const std::map<std::int64_t, double>& calls,
                               const std::function<std::string(const Config&)>& packing_of,
                               const SelectionLimits& limits, const std::map<std::int64_t, double>& dense_us = {});

}  // namespace sparsmith
