// Sparsity statistics as one HTML page without outside references.
#pragma once

#include <string>
#include <vector>

#include "matrix/model_analysis.h"

namespace sparsmith::tools {

std::string analysis_page(const ModelFile& file, const ModelAnalysis& analysis);

}  // namespace sparsmith::tools
