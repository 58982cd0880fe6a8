#include "matrix/model_analysis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
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

// Which tensors the names of weights and groups stand for; all of them where there is no name.
Result<std::vector<bool>> tensors_of(const std::vector<std::string>& only, const ModelFile& file,
                                     const std::vector<WeightGroup>& groups) {
  std::vector<bool> asked(file.tensors().size(), only.empty());
  for (const std::string& name : only) {
    const auto group = std::ranges::find(groups, name, &WeightGroup::name);
    const std::optional<std::size_t> index = file.find(name);
    if (group == groups.end() && !index)
      return invalid_argument(fmt::format("--only {}: {} has no weight or group of this name", name, file.path()));
    for (const WeightGroup& other : groups) {
      if (index && std::ranges::find(other.members, *index) != other.members.end())
        return invalid_argument(fmt::format("--only {}: it is in the group {}, give that", name, other.name));
    }
    if (index) asked[*index] = true;
    if (group != groups.end())
      for (const std::size_t member : group->members) asked[member] = true;
  }
  return asked;
}

// What is selected together: a tensor, a group of them, or those of a split.
struct Weight {
  std::string name = "it";
  double elements = 0;
  double nonzeros = 0;

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
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<bool> asked, tensors_of(options.only, file, groups));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<SplitSet> splits,
                             find_splits(file, {options.splits, options.ranks, groups, left_out}));
  ModelAnalysis analysis;
  analysis.skipped = file.skipped();
  const std::vector<TensorInfo>& tensors = file.tensors();
  std::vector<std::shared_ptr<Weight>> weights(tensors.size());  // of each tensor; the members of a group share one
  const auto share = [&](const std::string& name, const std::vector<std::size_t>& members) {
    const auto shared = std::make_shared<Weight>(Weight{name});
    for (const std::size_t index : members) weights[index] = shared;
  };
  for (const WeightGroup& group : groups) share("group " + group.name, group.members);
  for (const SplitSet& split : splits) share("split " + split.name, split.members);  // with the groups in it
  std::vector<bool> counted = asked;  // with those that are selected together with a tensor that is asked for
  for (const SplitSet& split : splits) {
    if (std::ranges::none_of(split.members, [&](std::size_t index) { return asked[index]; })) continue;
    for (const std::size_t index : split.members) counted[index] = true;
  }
  std::vector<AnalyzedWeight> candidates;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    if (progress) progress(index, tensors.size());
    if (std::string reason = asked[index] ? left_out(tensors[index].name) : "--only leaves it out"; !reason.empty()) {
      analysis.skipped.push_back(skipped(tensors[index], std::move(reason)));
      if (asked[index] || !counted[index]) continue;
    }
    SPARSMITH_ASSIGN_OR_RETURN(SparsityStatistics statistics, file.statistics(index, threads));
    if (weights[index] == nullptr) weights[index] = std::make_shared<Weight>();
    weights[index]->add(statistics);
    if (asked[index]) candidates.push_back({index, std::move(statistics)});
  }
  if (progress) progress(tensors.size(), tensors.size());
  for (AnalyzedWeight& candidate : candidates) {
    const Weight& weight = *weights[candidate.index];
    if (!file.single_matrix() && !(weight.sparsity() > options.min_sparsity)) {
      analysis.skipped.push_back(
          skipped(tensors[candidate.index],
                  fmt::format("{:.1f} % of {} is zero; fewer zeros than --min-sparsity asks ({:.1f} %)",
                              100 * weight.sparsity(), weight.name, 100 * options.min_sparsity)));
      continue;
    }
    analysis.weights.push_back(std::move(candidate));
  }
  const auto selected = [&](const auto& together) {
    return std::ranges::any_of(analysis.weights, [&](const AnalyzedWeight& weight) {
      return std::ranges::find(together.members, weight.index) != together.members.end();
    });
  };
  std::ranges::copy_if(groups, std::back_inserter(analysis.groups), selected);
  std::ranges::copy_if(splits, std::back_inserter(analysis.splits), selected);
  return analysis;
}

}  // namespace sparsmith
