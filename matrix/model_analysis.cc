#include "matrix/model_analysis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

namespace sparsmith {
namespace {

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

SkippedTensor skipped(const TensorInfo& info, std::string reason) {
  return {info.name, fmt::format("{} [{}]", safetensors_name(info.data_type), fmt::join(info.shape, ", ")),
          std::move(reason)};
}

}  // namespace

Result<ModelAnalysis> analyze_model(const ModelFile& file, const SelectionOptions& options, int threads,
                                    const AnalysisProgress& progress) {
  ModelAnalysis analysis;
  analysis.skipped = file.skipped();
  const std::vector<TensorInfo>& tensors = file.tensors();
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const TensorInfo& info = tensors[index];
    if (progress) progress(index, tensors.size());
    if (!options.include.empty() && !matches_any(options.include, info.name)) {
      analysis.skipped.push_back(skipped(info, "no --include pattern matches it"));
      continue;
    }
    if (matches_any(options.exclude, info.name)) {
      analysis.skipped.push_back(skipped(info, "an --exclude pattern matches it"));
      continue;
    }
    SPARSMITH_ASSIGN_OR_RETURN(SparsityStatistics statistics, file.statistics(index, threads));
    if (!file.single_matrix() && !(statistics.sparsity > options.min_sparsity)) {
      analysis.skipped.push_back(skipped(info, fmt::format("{:.1f} % of it is zero; weights above {:.1f} % are taken",
                                                           100 * statistics.sparsity, 100 * options.min_sparsity)));
      continue;
    }
    analysis.weights.push_back({index, std::move(statistics)});
  }
  if (progress) progress(tensors.size(), tensors.size());
  return analysis;
}

}  // namespace sparsmith
