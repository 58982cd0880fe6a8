// From a search space to the points that a strategy searches.
#pragma once

#include <cstdint>

#include "search/strategy/candidate_selection.h"
#include "search/strategy/strategy.h"

namespace sparsmith {

struct SearchScope {
  StrategyKind strategy = StrategyKind::kRace;
  // The race sees this many configs, those with the best predictions. An exhaustive search of a larger space draws this
  // many by the seed.
  std::size_t most = 10'000;
  std::uint64_t seed = 1;
  bool selected_only = false;         // the selected configs and one of the baseline only, since nothing is timed
  std::vector<Config> baseline = {};  // the baseline's configs; empty: all
};

// The incumbent (may be null), the baseline, the selected configs, and the whole space as far as the scope says, all
// for the problem's N. Points of an exhaustive search include all that a race would start with.
SearchPoints search_points(const Problem& problem, const CandidateSelection& selection,
                           const PredictedConfig* incumbent, const SearchScope& scope);

}  // namespace sparsmith
