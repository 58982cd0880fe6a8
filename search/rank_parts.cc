#include "search/rank_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "base/parallel_for.h"

namespace sparsmith {
namespace {

// A member of a set.
struct CutWeight {
  std::size_t set = 0;
  std::size_t index = 0;  // in ModelFile::tensors()
  WeightCut cut{};
  std::vector<SparsityStatistics> statistics{};  // of each rank's part
};
using CutWeights = std::map<std::string, CutWeight>;  // by name

// Reads the weights of a set, and cuts them.
Status cut_set(const ModelFile& model, const SplitSet& set, int ranks, std::span<CutWeight* const> members) {
  std::vector<CsrMatrix> matrices;
  std::vector<std::int64_t> loads(set.units);
  for (std::size_t i = 0; i < members.size(); ++i) {
    SPARSMITH_ASSIGN_OR_RETURN(CsrMatrix matrix, model.read(members[i]->index));
    add_loads(matrix, set.dimensions[i], loads);
    matrices.push_back(std::move(matrix));
  }
  const std::vector<std::int64_t> boundaries = balanced_boundaries(loads, ranks);
  for (std::size_t i = 0; i < members.size(); ++i) {
    members[i]->cut = {set.dimensions[i], boundaries, set.whole()};
    for (int rank = 0; rank < ranks; ++rank) {
      SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix part, part_of(matrices[i], members[i]->cut, rank));
      members[i]->statistics.push_back(compute_statistics(part));
    }
  }
  return {};
}

// Several sets at once, each of which takes the memory of its weights.
Result<CutWeights> cut_sets(const ModelFile& model, std::span<const SplitSet> sets, int ranks) {
  constexpr std::int64_t kThreads = 4;
  CutWeights cuts;
  std::vector<std::vector<CutWeight*>> members(sets.size());
  for (std::size_t set = 0; set < sets.size(); ++set)
    for (const std::size_t index : sets[set].members)
      members[set].push_back(&(cuts[model.tensors()[index].name] = {set, index}));
  std::mutex mutex;
  Status first_error;
  parallel_each(
      std::ssize(sets),
      [&](std::int64_t set) {
        Status status = cut_set(model, sets[set], ranks, members[set]);
        const std::lock_guard lock(mutex);
        if (first_error.ok()) first_error = std::move(status);
      },
      1, kThreads);
  if (!first_error.ok()) return first_error;
  return cuts;
}

WeightInput part_input(const ModelFile& model, const CutWeight& weight, int rank) {
  WeightInput input{model.tensors()[weight.index].name,
                    [&model, index = weight.index, cut = weight.cut, rank]() -> Result<CsrMatrix> {
                      SPARSMITH_ASSIGN_OR_RETURN(const CsrMatrix matrix, model.read(index));
                      return part_of(matrix, cut, rank);
                    }};
  input.statistics = weight.statistics[rank];
  return input;
}

// Whether a member of the group ends in its middle.
bool has_middle(const ModelFile& model, const WeightInput& group, const CutWeights& cuts) {
  std::int64_t all = 0;
  std::set<std::int64_t> ends;
  for (const WeightInput& member : group.members) ends.insert(all += model.tensors()[cuts.at(member.name).index].rows);
  return all % 2 == 0 && ends.contains(all / 2);
}

// Whether each part computes its part of what the whole weight does.
Status check_epilogue(const ModelFile& model, const WeightInput& weight, const Epilogue& epilogue, const CutWeight& cut,
                      const SplitSet& set, const CutWeights& cuts) {
  const std::string name = epilogue.name();
  Epilogue sum;
  sum.bias = epilogue.bias;
  if (cut.cut.dimension == WeightCut::Dimension::kColumns && epilogue != sum)
    return invalid_argument(
        fmt::format("--epilogue {}: split {} cuts {} by columns, and its parts must be summed first: a bias alone can "
                    "be a part of its kernels",
                    name, set.name, weight.name));
  if (epilogue.gated && !has_middle(model, weight, cuts))
    return invalid_argument(
        fmt::format("--epilogue {}: split {} cuts {} through its gates; make gate and values two weights of a group",
                    name, set.name, weight.name));
  return {};
}

bool launches(const LaunchPlan& plan, std::string_view kernel) {
  return std::ranges::any_of(
      plan.steps, [&](const PlanStep& step) { return step.kind == PlanStep::Kind::kLaunch && step.kernel == kernel; });
}

bool launches(const TunedWeight& weight, std::string_view kernel) {
  const auto any = [&](const auto& items) {
    return std::ranges::any_of(items, [&](const auto& item) { return launches(item.plan, kernel); });
  };
  return any(weight.pruners) || std::ranges::any_of(weight.packings, any, &TunedPacking::writers) ||
         std::ranges::any_of(weight.operators, any, &TunedOperator::choices);
}

}  // namespace

Result<RankParts> cut_for_ranks(const ModelFile& model, const ModelAnalysis& analysis, int ranks,
                                const Epilogue& default_epilogue, std::vector<WeightInput>& weights) {
  SPARSMITH_ASSIGN_OR_RETURN(const CutWeights cuts, cut_sets(model, analysis.splits, ranks));
  RankParts parts{.ranks = ranks};
  for (const SplitSet& set : analysis.splits) parts.sets.push_back({set.name, set.members.size()});
  std::vector<WeightInput> cut_weights;
  for (WeightInput& weight : weights) {
    const auto found = cuts.find(weight.members.empty() ? weight.name : weight.members.front().name);
    if (found == cuts.end()) {
      cut_weights.push_back(std::move(weight));
      continue;
    }
    const CutWeight& cut = found->second;
    SPARSMITH_RETURN_IF_ERROR(
        check_epilogue(model, weight, weight.epilogue.value_or(default_epilogue), cut, analysis.splits[cut.set], cuts));
    for (int rank = 0; rank < ranks; ++rank) {
      WeightInput& part = cut_weights.emplace_back();
      if (weight.members.empty()) part = part_input(model, cut, rank);
      for (const WeightInput& member : weight.members)
        part.members.push_back(part_input(model, cuts.at(member.name), rank));
      part.name = fmt::format("{} [rank {} of {}]", weight.name, rank, ranks);
      part.epilogue = weight.epilogue;
      parts.parts[part.name] = {weight.name, rank, cut.set, cut.cut};
    }
  }
  weights = std::move(cut_weights);
  return parts;
}

std::vector<std::string> incomplete_splits(const TunedContents& contents, const RankParts& parts) {
  std::vector<std::size_t> found(parts.sets.size());
  for (const TunedWeight& weight : contents.weights)
    if (const auto part = parts.parts.find(weight.name); part != parts.parts.end())
      found[part->second.set] += std::max<std::size_t>(1, weight.members.size());
  std::vector<std::string> incomplete;
  for (std::size_t set = 0; set < found.size(); ++set)
    if (found[set] < parts.sets[set].weights * static_cast<std::size_t>(parts.ranks))
      incomplete.push_back(parts.sets[set].name);
  return incomplete;
}

TunedContents contents_of_rank(const TunedContents& contents, const RankParts& parts, int rank) {
  const std::vector<std::string> incomplete = incomplete_splits(contents, parts);
  TunedContents own;
  own.provenance = contents.provenance;
  own.rank = rank;
  own.ranks = parts.ranks;
  for (const TunedWeight& weight : contents.weights) {
    const auto found = parts.parts.find(weight.name);
    if (found == parts.parts.end()) {
      own.weights.push_back(weight);
      continue;
    }
    const RankPart& part = found->second;
    if (part.rank != rank || std::ranges::find(incomplete, parts.sets[part.set].name) != incomplete.end()) continue;
    TunedWeight& added = own.weights.emplace_back(weight);
    added.name = part.weight;
    added.cut = part.cut;
  }
  std::ranges::copy_if(contents.kernels, std::back_inserter(own.kernels), [&](const TunedKernel& kernel) {
    return std::ranges::any_of(own.weights, [&](const auto& weight) { return launches(weight, kernel.name); });
  });
  return own;
}

std::string path_of_rank(const std::string& path, int rank) {
  const std::filesystem::path file(path);
  const std::string name = file.filename().string();
  constexpr std::string_view kTuned = ".tuned.safetensors";
  const std::size_t dot = name.ends_with(kTuned) ? name.size() - kTuned.size() : name.rfind('.');
  const std::size_t end = dot == std::string::npos || dot == 0 ? name.size() : dot;
  return (file.parent_path() / fmt::format("{}.rank{}{}", name.substr(0, end), rank, name.substr(end))).string();
}

}  // namespace sparsmith
