// Which tensors of a file are worth tuning, and what their zeros look like.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "matrix/model_file.h"
#include "matrix/weight_groups.h"

namespace sparsmith {

struct SelectionOptions {
  // A weight is taken when more than this share of it is zero. Does not apply to a file that is one matrix.
  double min_sparsity = 0.3;
  // Shell patterns (*, ?, [..]) on names: taken are those that match one of `include`, where there are any, and none
  // of `exclude`. What they leave out is not read.
  std::vector<std::string> include{};
  std::vector<std::string> exclude{};
  // Weights that are tuned as one. The members of a group are taken together, by the zeros of all of them; tensors that
  // `include` and `exclude` leave out are no members.
  std::vector<GroupPattern> groups{};
  bool transposed = false;  // as in GroupSearch
  bool converted = false;
};

struct AnalyzedWeight {
  std::size_t index = 0;  // in ModelFile::tensors()
  SparsityStatistics statistics;
};

struct ModelAnalysis {
  std::vector<AnalyzedWeight> weights;  // members of groups among them
  std::vector<WeightGroup> groups;      // of those weights
  std::vector<SkippedTensor> skipped;   // with the reasons of the file and of the selection
};

// Called after each tensor.
using AnalysisProgress = std::function<void(std::size_t done, std::size_t total)>;

// Reads every tensor once, one after the other, on `threads` threads each.
//   Errors: those of find_groups(), before anything is read; of the first tensor that cannot be read.
Result<ModelAnalysis> analyze_model(const ModelFile& file, const SelectionOptions& options, int threads = 2,
                                    const AnalysisProgress& progress = {});

}  // namespace sparsmith
