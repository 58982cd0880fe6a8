// A weights file as a page shows it.
#pragma once

#include "matrix/model_analysis.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// The analysis with maps of the weights that a page shows in detail: these are read once more, one after the other.
//   Errors: as ModelFile::read().
Result<LayerAnalysis> layer_analysis(const ModelFile& file, const ModelAnalysis& analysis);

}  // namespace sparsmith::tools
