// Which tensors of a file are worth tuning, and what their zeros look like.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "matrix/model_file.h"

namespace sparsmith {

struct SelectionOptions {
  // A weight is taken when more than this share of it is zero. Does not apply to a file that is one matrix.
  double min_sparsity = 0.3;
  // Shell patterns (*, ?, [..]) on names: taken are those that match one of `include`, where there are any, and none
  // of `exclude`. What they leave out is not read.
  std::vector<std::string> include{};
  std::vector<std::string> exclude{};
};

struct AnalyzedWeight {
  std::size_t index = 0;  // in ModelFile::tensors()
  SparsityStatistics statistics;
};

struct ModelAnalysis {
  std::vector<AnalyzedWeight> weights;
  std::vector<SkippedTensor> skipped;  // with the reasons of the file and of the selection
};

// Called after each tensor.
using AnalysisProgress = std::function<void(std::size_t done, std::size_t total)>;

// Reads every tensor once, one after the other, on `threads` threads each. Error: of the first tensor that cannot be
// read.
Result<ModelAnalysis> analyze_model(const ModelFile& file, const SelectionOptions& options, int threads = 2,
                                    const AnalysisProgress& progress = {});

}  // namespace sparsmith
