// Shared parts of the speed figures: names, colours and means.
#pragma once

#include <string>
#include <vector>

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// The last component of a path: the name of a file, or of a model's folder.
std::string file_name(const std::string& path);

// "From runs/model.safetensors."; empty where file_name() says it all.
std::string source_text(const std::string& path);

// The geometric mean; 0 for an empty list.
double geometric_mean(const std::vector<double>& ratios);

// "2.31x"; "-" when the ratio is not known.
std::string times_text(double ratio);

// "4096 x 4096"
std::string shape_text(std::int64_t rows, std::int64_t cols);

// "1.50 MB"; "-" where the bytes are not known.
std::string bytes_text(double bytes);

// "layer.weight, 4096 x 4096, 95.0 % zeros, N = 8: slots 2.50 us"
std::string case_text(const ResultCase& one);

// The family of a config as users know it: its first word, or "dense tiles" for bsr that stores every block.
std::string family_of(const std::string& config);

// The colour of a family, the same in every figure; dense is vermillion.
Colour colour_of_family(const std::string& family);

}  // namespace sparsmith::tools
