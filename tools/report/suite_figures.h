// Figures over all cases that were measured on one device: speed-ups, where dense is passed, who wins where.
#pragma once

#include <string>
#include <vector>

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// Cases without a peer are left out, and counted in the section's text.
Section suite_section(const std::string& device, const std::vector<ResultCase>& cases);

// Where `ours` and dense cost the same, by a straight line in logarithms between neighbouring N; the N from which dense
// is kept counts too. 0: nowhere in between.
//   cases: of one weight, in ascending order of N.
double crossover_tokens(const std::vector<const ResultCase*>& cases);

}  // namespace sparsmith::tools
