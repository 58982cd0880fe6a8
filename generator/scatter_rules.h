// Rules and parameters that the families which read the scatter format share: scatter, wgmma, specialized.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/scatter.h"
#include "generator/family.h"

namespace sparsmith {

// How a family says its packing.
struct ScatterChoice {
  std::vector<std::string> parameters;  // that `packing` looks at
  std::function<ScatterPacking(const RuleInput&)> packing;
  int values_below = 1;  // of min_rounds, at or below what nearly all tiles have, that are worth a try
};

Parameter min_rounds_parameter();
Parameter max_rounds_parameter();

// REQUIRES: parameters entry, min_rounds and max_rounds.
std::vector<Rule> legal_scatter_rules();
std::vector<Rule> worthwhile_scatter_rules(const ScatterChoice& choice);

}  // namespace sparsmith
