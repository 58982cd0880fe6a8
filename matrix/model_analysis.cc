#include "matrix/model_analysis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>

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

// Why `options` leave a tensor out, by its name; "": they do not.
std::string reason_to_leave_out(const SelectionOptions& options, const std::string& name) {
  if (!options.include.empty() && !matches_any(options.include, name)) return "no --include pattern matches it";
  if (matches_any(options.exclude, name)) return "an --exclude pattern matches it";
  return "";
}

// The weight of each tensor: itself, or the group that it is in.
class Weights {
 public:
  Weights(const ModelFile& file, const std::vector<WeightGroup>& groups) : file_(file) {
    for (const WeightGroup& group : groups) {
      for (const std::size_t index : group.members) group_of_[index] = &group;
    }
  }

  const WeightGroup* group_of(std::size_t index) const {
    const auto found = group_of_.find(index);
    return found == group_of_.end() ? nullptr : found->second;
  }

  void add(const AnalyzedWeight& weight) {
    const WeightGroup* const group = group_of(weight.index);
    if (group == nullptr) return;
    Sum& sum = sums_[group];
    sum.elements += static_cast<double>(weight.statistics.rows) * static_cast<double>(weight.statistics.cols);
    sum.nonzeros += static_cast<double>(weight.statistics.nnz);
  }

  // Of the weight; REQUIRES that all members of its group are added.
  double sparsity(const AnalyzedWeight& weight) const {
    const WeightGroup* const group = group_of(weight.index);
    if (group == nullptr) return weight.statistics.sparsity;
    const Sum& sum = sums_.at(group);
    return sum.elements > 0 ? 1 - sum.nonzeros / sum.elements : 0;
  }

  SkippedTensor skipped_for_sparsity(const AnalyzedWeight& weight, double min_sparsity) const {
    const WeightGroup* const group = group_of(weight.index);
    return skipped(file_.tensors()[weight.index],
                   fmt::format("{:.1f} % of {} is zero; weights above {:.1f} % are taken", 100 * sparsity(weight),
                               group == nullptr ? "it" : "group " + group->name, 100 * min_sparsity));
  }

 private:
  struct Sum {
    double elements = 0;
    double nonzeros = 0;
  };
  const ModelFile& file_;
  std::map<std::size_t, const WeightGroup*> group_of_;
  std::map<const WeightGroup*, Sum> sums_;
};

}  // namespace

Result<ModelAnalysis> analyze_model(const ModelFile& file, const SelectionOptions& options, int threads,
                                    const AnalysisProgress& progress) {
  const auto left_out = [&options](const std::string& name) { return reason_to_leave_out(options, name); };
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<WeightGroup> groups,
                             find_groups(file, {options.groups, options.transposed, options.converted, left_out}));
  ModelAnalysis analysis;
  analysis.skipped = file.skipped();
  const std::vector<TensorInfo>& tensors = file.tensors();
  Weights weights(file, groups);
  std::vector<AnalyzedWeight> candidates;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    if (progress) progress(index, tensors.size());
    if (std::string reason = left_out(tensors[index].name); !reason.empty()) {
      analysis.skipped.push_back(skipped(tensors[index], std::move(reason)));
      continue;
    }
    SPARSMITH_ASSIGN_OR_RETURN(SparsityStatistics statistics, file.statistics(index, threads));
    candidates.push_back({index, std::move(statistics)});
    weights.add(candidates.back());
  }
  if (progress) progress(tensors.size(), tensors.size());
  std::set<const WeightGroup*> taken;
  for (AnalyzedWeight& weight : candidates) {
    if (!file.single_matrix() && !(weights.sparsity(weight) > options.min_sparsity)) {
      analysis.skipped.push_back(weights.skipped_for_sparsity(weight, options.min_sparsity));
      continue;
    }
    const WeightGroup* const group = weights.group_of(weight.index);
    if (group != nullptr && taken.insert(group).second) analysis.groups.push_back(*group);
    analysis.weights.push_back(std::move(weight));
  }
  return analysis;
}

}  // namespace sparsmith
