// From a search space to the points that a strategy searches.
#pragma once

#include <cstdint>
#include <string>

#include "search/candidate_selection.h"
#include "search/strategy.h"

namespace sparsmith {

struct SearchScope {
  StrategyKind strategy = StrategyKind::kRace;
  // Configs of the space that the race knows of, the best predicted of them; points that the exhaustive strategy goes
  // through, where more are drawn from by seed.
  std::size_t most = 10'000;
  std::uint64_t seed = 1;
  bool selected_only = false;  // nothing is timed: what was selected is all that is looked at, with one of the baseline
  std::vector<Config> baseline = {};  // the only ones of the baseline; empty: all
};

// The incumbent (may be null), the baseline, what was selected, and the whole space or as much of it as the scope says.
// What the exhaustive strategy is given holds all that the race begins with.
//   N is the problem's.
SearchPoints search_points(const Problem& problem, const CandidateSelection& selection,
                           const SearchSpace::Entry* incumbent, const SearchScope& scope);

}  // namespace sparsmith
