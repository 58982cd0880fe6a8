// Searches a recorded space in place of a device: the same strategies and stop conditions, with trials drawn from the
// recorded samples. So strategies are compared without a GPU, with the same result each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "search/record/recorded_space.h"
#include "search/strategy/candidate_selection.h"
#include "search/strategy/strategy.h"

namespace sparsmith {

struct SimulationOptions {
  StrategyKind strategy = StrategyKind::kRace;
  // Another strategy in its place, of these points and this seed.
  std::function<std::unique_ptr<Strategy>(const SearchPoints&, std::uint64_t)> make = {};
  SelectionLimits selection = {};  // of the race's start
  std::size_t budget = 64;         // candidates that another strategy than the race tries at most
  std::uint64_t seed = 1;          // of the samples that trials draw
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
// The recorded median of the candidate with the best prediction: the choice of a machine that cannot time.
double predicted_choice_us(const RecordedSpace& space);

// The space as strategies see it, in ascending order of prediction: points[i] is candidates[order[i]].
SearchPoints recorded_points(const RecordedSpace& space, const SelectionLimits& selection,
                             std::vector<std::size_t>& order);

}  // namespace sparsmith
