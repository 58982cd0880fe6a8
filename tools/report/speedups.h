// What several figures of speed share: names, colours, means, and the cases that belong together.
#pragma once

#include <string>
#include <vector>

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// 0 without any.
double geometric_mean(const std::vector<double>& ratios);

// "2.31×"
std::string times_text(double ratio);

// "layer.weight, 4096 × 4096, 95.0 % zeros, N = 8: slots 2.50 us"
std::string case_text(const ResultCase& one);

// Families have the same colour in every figure; dense is vermillion.
Colour colour_of_family(const std::string& family);

// Cases of one weight and operator, in ascending order of N.
struct WeightCases {
  std::string weight;
  double sparsity = 0;
  std::vector<const ResultCase*> cases;
};
std::vector<WeightCases> by_weight(const std::vector<ResultCase>& cases);

// At most `most` of `all`, evenly spaced.
std::vector<WeightCases> evenly(const std::vector<WeightCases>& all, std::size_t most);

}  // namespace sparsmith::tools
