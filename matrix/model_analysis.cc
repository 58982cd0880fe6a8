#include "matrix/model_analysis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace sparsmith {
namespace {

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
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

Status check_names(const std::vector<std::string>& only, const ModelFile& file,
                   const std::vector<WeightGroup>& groups) {
  for (const std::string& name : only) {
    if (!file.find(name) && std::ranges::find(groups, name, &WeightGroup::name) == groups.end())
      return invalid_argument(fmt::format("--only {}: {} has no weight or group of this name", name, file.path()));
  }
  return {};
}

// What is tuned as one weight: a tensor, or a group of them.
struct Weight {
  const WeightGroup* group = nullptr;
  double elements = 0;
  double nonzeros = 0;
  bool taken = false;

  void add(const SparsityStatistics& statistics) {
    elements += static_cast<double>(statistics.rows) * static_cast<double>(statistics.cols);
    nonzeros += static_cast<double>(statistics.nnz);
  }
  double sparsity() const { return elements > 0 ? 1 - nonzeros / elements : 0; }
};

}  // namespace

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool selects(const SelectionOptions& options, const std::string& name) {
  return reason_to_leave_out(options, name).empty();
}

Result<ModelAnalysis> analyze_model(const ModelFile& file, const SelectionOptions& options, int threads,
                                    const AnalysisProgress& progress) {
  const auto left_out = [&options](const std::string& name) { return reason_to_leave_out(options, name); };
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<WeightGroup> groups,
                             find_groups(file, {options.groups, options.transposed, options.converted, left_out}));
  SPARSMITH_RETURN_IF_ERROR(check_names(options.only, file, groups));
  ModelAnalysis analysis;
  analysis.skipped = file.skipped();
  const std::vector<TensorInfo>& tensors = file.tensors();
  std::vector<std::shared_ptr<Weight>> weights(tensors.size());  // of each tensor; the members of a group share one
  for (const WeightGroup& group : groups) {
    const auto shared = std::make_shared<Weight>(Weight{&group});
    for (const std::size_t index : group.members) weights[index] = shared;
  }
  std::vector<AnalyzedWeight> candidates;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    if (progress) progress(index, tensors.size());
    const Weight* const own = weights[index].get();
    const std::string& name = own != nullptr ? own->group->name : tensors[index].name;
    const bool asked = options.only.empty() || std::ranges::find(options.only, name) != options.only.end();
    if (std::string reason = asked ? left_out(tensors[index].name) : "--only leaves it out"; !reason.empty()) {
      analysis.skipped.push_back(skipped(tensors[index], std::move(reason)));
      continue;
    }
    SPARSMITH_ASSIGN_OR_RETURN(SparsityStatistics statistics, file.statistics(index, threads));
    if (weights[index] == nullptr) weights[index] = std::make_shared<Weight>();
    weights[index]->add(statistics);
    candidates.push_back({index, std::move(statistics)});
  }
  if (progress) progress(tensors.size(), tensors.size());
  for (AnalyzedWeight& candidate : candidates) {
    Weight& weight = *weights[candidate.index];
    if (!file.single_matrix() && !(weight.sparsity() > options.min_sparsity)) {
      const std::string name = weight.group == nullptr ? "it" : "group " + weight.group->name;
      analysis.skipped.push_back(
          skipped(tensors[candidate.index],
                  fmt::format("{:.1f} % of {} is zero; fewer zeros than --min-sparsity asks ({:.1f} %)",
                              100 * weight.sparsity(), name, 100 * options.min_sparsity)));
      continue;
    }
    if (weight.group != nullptr && !std::exchange(weight.taken, true)) analysis.groups.push_back(*weight.group);
    analysis.weights.push_back(std::move(candidate));
  }
  return analysis;
}

}  // namespace sparsmith
