// Shared parts of the speed figures: names, colours and means.
#pragma once

#include <string>
#include <vector>

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// The geometric mean; 0 for an empty list.
double geometric_mean(const std::vector<double>& ratios);

// "2.31×"; "-" when the ratio is not known.
std::string times_text(double ratio);

// "4096 × 4096"
std::string shape_text(std::int64_t rows, std::int64_t cols);

// "1.50 MB"; "-" where the bytes are not known.
std::string bytes_text(double bytes);

// "layer.weight, 4096 × 4096, 95.0 % zeros, N = 8: slots 2.50 us"
std::string case_text(const ResultCase& one);

// The family of a config: its first word.
std::string family_of(const std::string& config);

// The colour of a family, the same in every figure; dense is vermillion.
Colour colour_of_family(const std::string& family);

}  // namespace sparsmith::tools
