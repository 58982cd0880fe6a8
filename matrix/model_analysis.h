// Selects the tensors of a file to tune, and computes the statistics of their zeros.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "matrix/model_file.h"
#include "matrix/weight_groups.h"
#include "matrix/weight_splits.h"

namespace sparsmith {

struct SelectionOptions {
  // A weight is selected when its share of zeros is above this. Does not apply to a file with a single matrix.
  double min_sparsity = 0.3;
  // Shell patterns (*, ?, [..]) for names. A selected name matches a pattern of `include`, unless `include` is empty,
  // and no pattern of `exclude`. Other tensors are not read.
  std::vector<std::string> include{};
  std::vector<std::string> exclude{};
  // Names of weights and groups: of what is selected, these alone, and other tensors are not read. Empty: all.
  std::vector<std::string> only{};
  // Weights to tune as one weight. The members of a group are selected together, by the share of zeros of the whole
  // group. Tensors that `include` and `exclude` leave out are no members.
  std::vector<GroupPattern> groups{};
  bool transposed = false;  // as in GroupSearch
  bool converted = false;
  // Weights that are cut for `ranks` ranks. Those of a set are selected together, as those of a group.
  std::vector<SplitPattern> splits{};
  int ranks = 1;
};

// Whether a name matches a shell pattern (*, ?, [..]).
bool matches(const std::string& pattern, const std::string& name);

// Whether the patterns of `options` select the name.
bool selects(const SelectionOptions& options, const std::string& name);

struct AnalyzedWeight {
  std::size_t index = 0;  // index in ModelFile::tensors()
  SparsityStatistics statistics;
};

struct ModelAnalysis {
  std::vector<AnalyzedWeight> weights;  // also the members of groups
  std::vector<WeightGroup> groups;      // of those weights
  std::vector<SplitSet> splits;         // that cut one of those weights or more
  std::vector<SkippedTensor> skipped;   // skipped by the file or by the selection, with reasons
};

// Called after each tensor.
using AnalysisProgress = std::function<void(std::size_t done, std::size_t total)>;

// Reads every tensor once, one after the other, on `threads` threads each.
//   Errors: as find_groups() and find_splits(), and kInvalidArgument for a name of `only` that is of no weight or
//   group, before any tensor is read; the error of the first tensor that cannot be read.
Result<ModelAnalysis> analyze_model(const ModelFile& file, const SelectionOptions& options, int threads = 2,
                                    const AnalysisProgress& progress = {});

}  // namespace sparsmith
