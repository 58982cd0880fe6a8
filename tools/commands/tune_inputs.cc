#include "tools/commands/tune_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "base/log.h"
#include "search/shard.h"

namespace sparsmith::tools {
namespace {

Result<SelectionOptions> selection_of(const TuneSettings& settings, const TuneOptions& tuning) {
  SelectionOptions selection = settings.selection;
  for (const std::string& text : settings.groups) {
    SPARSMITH_ASSIGN_OR_RETURN(GroupPattern pattern, parse_group_pattern(text));
    selection.groups.push_back(std::move(pattern));
  }
  for (const std::string& text : settings.splits) {
    SPARSMITH_ASSIGN_OR_RETURN(SplitPattern pattern, parse_split_pattern(text));
    selection.splits.push_back(std::move(pattern));
  }
  selection.transposed = tuning.transpose;
  selection.converted = tuning.type.has_value();
  return selection;
}

// The weights of a model, in its order; a group stands where the first of its members does.
std::vector<WeightInput> inputs_of(const ModelFile& model, const ModelAnalysis& analysis, bool transposed) {
  const auto input = [&](std::size_t index, const AnalyzedWeight* analyzed) {
    WeightInput weight{model.tensors()[index].name, [&model, index] { return model.read(index); }};
    if (analyzed != nullptr && !transposed) weight.statistics = analyzed->statistics;
    return weight;
  };
  std::map<std::size_t, const WeightGroup*> group_of;
  for (const WeightGroup& group : analysis.groups) {
    for (const std::size_t index : group.members) group_of[index] = &group;
  }
  std::vector<WeightInput> inputs;
  std::set<const WeightGroup*> added;
  for (const AnalyzedWeight& weight : analysis.weights) {
    const auto found = group_of.find(weight.index);
    if (found == group_of.end()) {
      inputs.push_back(input(weight.index, &weight));
    } else if (added.insert(found->second).second) {
      WeightInput& group = inputs.emplace_back();
      group.name = found->second->name;
      for (const std::size_t index : found->second->members) group.members.push_back(input(index, nullptr));
    }
  }
  return inputs;
}

std::vector<ShardWeight> sizes_of(const TuneInputs& inputs) {
  std::map<std::string_view, const SparsityStatistics*> statistics;
  for (const AnalyzedWeight& weight : inputs.analysis.weights)
    statistics[inputs.model.tensors()[weight.index].name] = &weight.statistics;
  std::vector<ShardWeight> sizes;
  for (const WeightInput& weight : inputs.weights) {
    ShardWeight& size = sizes.emplace_back();
    for (const WeightInput& part : weight.members.empty() ? std::span(&weight, 1) : std::span(weight.members)) {
      const SparsityStatistics& of_part = *statistics.at(part.name);
      size = {size.rows + of_part.rows, of_part.cols, size.nnz + of_part.nnz};
    }
  }
  return sizes;
}

Status refuse_bound_of_all(const char* option, const TuneOptions& tuning) {
  if (tuning.model_bytes == 0) return {};
  return invalid_argument(
      fmt::format("{}: a bound on the bytes of all weights together needs all of them; give --memory 1x", option));
}

// Leaves the weights of a shard. Error: kInvalidArgument where it has none.
Status take_shard(const std::string& text, const TuneOptions& tuning, TuneInputs& inputs) {
  if (text.empty()) return {};
  auto shard = parse_shard(text);
  if (!shard.ok()) return shard.status().annotate("--shard");
  SPARSMITH_RETURN_IF_ERROR(refuse_bound_of_all("--shard", tuning));
  std::vector<WeightInput> own;
  for (const std::size_t index : weights_of_shard(sizes_of(inputs), *shard))
    own.push_back(std::move(inputs.weights[index]));
  if (own.empty() && !inputs.weights.empty())
    return invalid_argument(fmt::format(
        "--shard {}: no weight is left for it: the model's {} weights make fewer shards", text, inputs.weights.size()));
  inputs.weights = std::move(own);
  return {};
}

// Gives a weight the epilogue of the last pattern that matches its name. A pattern is wrong that matches nothing in the
// file; one that matches skipped tensors alone may be right for another run.
Status set_epilogues(const TuneSettings& settings, const std::vector<SkippedTensor>& skipped,
                     std::vector<WeightInput>& weights) {
  for (const std::string& text : settings.epilogues) {
    SPARSMITH_ASSIGN_OR_RETURN(const WeightEpilogue given, parse_weight_epilogue(text));
    if (given.pattern.empty()) continue;
    const auto named = [&](const auto& each) { return matches(given.pattern, each.name); };
    bool found = false;
    std::string group;
    for (WeightInput& weight : weights) {
      if (std::ranges::any_of(weight.members, named)) group = weight.name;
      if (!named(weight)) continue;
      weight.epilogue = given.epilogue;
      found = true;
    }
    if (found) continue;
    if (!group.empty())
      return invalid_argument(
          fmt::format("--epilogue {}: the pattern matches members of groups, which are tuned as one "
                      "weight; give the name of the group, {}",
                      text, group));
    if (!settings.selection.only.empty()) continue;  // another run's
    if (std::ranges::none_of(skipped, named))
      return invalid_argument(
          fmt::format("--epilogue {}: no weight or group has a name that matches {}", text, given.pattern));
    log_warning("--epilogue {}: only skipped tensors match {}", text, given.pattern);
  }
  return {};
}

// The inputs, before they are cut for ranks.
Result<std::unique_ptr<TuneInputs>> open_whole(const TuneSettings& settings, const TuneOptions& tuning) {
  SPARSMITH_ASSIGN_OR_RETURN(ModelFile model, ModelFile::open(settings.file, {.seed = settings.value_seed,
                                                                              .max_memory = settings.max_memory}));
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  SPARSMITH_ASSIGN_OR_RETURN(const SelectionOptions selection, selection_of(settings, tuning));
  SPARSMITH_ASSIGN_OR_RETURN(ModelAnalysis analysis, analyze_model(model, selection, threads));
  auto inputs = std::make_unique<TuneInputs>(TuneInputs{std::move(model), std::move(analysis)});
  inputs->weights = inputs_of(inputs->model, inputs->analysis, tuning.transpose);
  SPARSMITH_RETURN_IF_ERROR(set_epilogues(settings, inputs->analysis.skipped, inputs->weights));
  SPARSMITH_RETURN_IF_ERROR(take_shard(settings.shard, tuning, *inputs));
  return inputs;
}

}  // namespace

Result<std::unique_ptr<TuneInputs>> open_inputs(const TuneSettings& settings, const TuneOptions& tuning) {
  SPARSMITH_ASSIGN_OR_RETURN(std::unique_ptr<TuneInputs> inputs, open_whole(settings, tuning));
  if (settings.splits.empty()) return inputs;
  if (tuning.model_bytes > 0)
    return invalid_argument("--tensor-parallel: ranks do not share their memory: give --memory for each weight, as 1x");
  SPARSMITH_ASSIGN_OR_RETURN(
      inputs->rank_parts,
      cut_for_ranks(inputs->model, inputs->analysis, settings.selection.ranks, tuning.epilogue, inputs->weights));
  return inputs;
}

Result<std::vector<NamedUnit>> units_of(const TuneSettings& settings, const TuneOptions& tuning, int count) {
  SPARSMITH_RETURN_IF_ERROR(refuse_bound_of_all("--units", tuning));
  SPARSMITH_ASSIGN_OR_RETURN(const std::unique_ptr<TuneInputs> inputs, open_whole(settings, tuning));
  std::vector<NamedUnit> named;
  for (const TuningUnit& unit : tuning_units(sizes_of(*inputs), count)) {
    NamedUnit& own = named.emplace_back(NamedUnit{{}, unit.work, unit.after});
    for (const std::size_t index : unit.weights) own.weights.push_back(inputs->weights[index].name);
  }
  return named;
}

}  // namespace sparsmith::tools
