// Searches of recorded spaces in figures.
#pragma once

#include <string>
#include <vector>

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// A strategy over all spaces.
struct StrategyMean {
  std::string name;
  std::size_t spaces = 0;
  double tried = 0;
  double regret = 1;  // geometric mean
  double worst = 1;
  std::vector<double> curve{};  // geometric mean; a search that has ended stays where it was
};

// In the order in which they first stand.
std::vector<StrategyMean> strategy_means(const SimulationResults& results);

// The best that was found over the best recorded, against candidates tried; and what each space says of itself.
Section simulation_section(const SimulationResults& results);

}  // namespace sparsmith::tools
