// The contents of a weights file and of a tuned file for a page.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "matrix/model_analysis.h"
#include "runtime/tuned_file.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// Statistics of the file's weights, read by several threads.
Result<ModelAnalysis> analyzed(const ModelFile& file, const SelectionOptions& selection);

// The analysis of a weights file, with density maps of the weights that a page shows in detail. These weights are read
// again, one after the other.
//   Errors: as ModelFile::read().
Result<LayerAnalysis> layer_analysis(const ModelFile& file, const ModelAnalysis& analysis);

// Whether the metadata of the file marks it as a tuned file. Tuned files and weights are both safetensors. False for
// other files.
bool says_tuned(std::span<const std::byte> file);

// The choices of a tuned file, with their dense times and their evidence.
TuningResults tuned_results(const TunedContents& contents, const std::string& source);

}  // namespace sparsmith::tools
