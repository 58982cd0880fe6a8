// Searches a recorded space as a device would be searched: the same strategies and stop conditions, trials drawn from
// the recorded samples. What strategies are worth is so known without a GPU, and the same every time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/candidate_selection.h"
#include "search/recorded_space.h"
#include "search/strategy.h"

namespace sparsmith {

struct SimulationOptions {
  StrategyKind strategy = StrategyKind::kRace;
  SelectionLimits selection = {};  // what the race begins with
  std::size_t budget = 64;         // candidates that another strategy tries at most
  std::uint64_t seed = 1;          // of the strategy, and of the samples that its trials draw
};

struct SimulatedSearch {
  std::size_t tried = 0;     // candidates
  std::size_t packings = 0;  // that they read
  double chosen_us = 0;      // recorded median of what the search chose; 0: nothing passed
  std::vector<float> path;   // after each candidate: recorded median of what was the best as measured; 0: none yet
};

// REQUIRES: the space has a candidate that is ok.
SimulatedSearch simulate(const RecordedSpace& space, const SimulationOptions& options);

double best_us(const RecordedSpace& space);
// Of the best predicted one that is ok: what is chosen where nothing can be timed.
double predicted_choice_us(const RecordedSpace& space);

// The space as strategies see it: points in ascending order of prediction, points[i] being candidates[order[i]].
SearchPoints recorded_points(const RecordedSpace& space, const SelectionLimits& selection,
                             std::vector<std::size_t>& order);

}  // namespace sparsmith
