#include "search/strategy/candidate_selection.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/parallel_for.h"

namespace sparsmith {
namespace {

// The best config of a packing at each N that it serves.
using Best = std::map<std::string, std::map<std::int64_t, const PredictedConfig*>>;

// Names of packings: those that serve the most N first, then by their summed time.
std::vector<std::string> by_sum(const Best& best, const std::map<std::int64_t, double>& calls) {
  struct Ranked {
    std::string name;
    std::size_t served = 0;
    double cost = 0;
  };
  std::vector<Ranked> ranked;
  for (const auto& [name, per_tokens] : best) {
    Ranked& each = ranked.emplace_back(Ranked{name, per_tokens.size(), 0});
    for (const auto& [tokens, predicted] : per_tokens) each.cost += calls.at(tokens) * predicted->predicted_us;
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return a.served != b.served ? a.served > b.served : a.cost < b.cost;
  });
  std::vector<std::string> names;
  for (Ranked& each : ranked) names.push_back(std::move(each.name));
  return names;
}

using PredictedConfigs = std::span<const PredictedConfig>;

constexpr std::size_t kLookedAt = 2;  // however far dense is ahead

// Of `configs`, which ascend, those that may compete with a dense product of `dense_us` (0: not known).
PredictedConfigs beside_dense(PredictedConfigs configs, double dense_us, const SelectionLimits& limits) {
  if (dense_us <= 0 || limits.dense_doubt <= 0) return configs;
  const auto too_slow =
      std::ranges::upper_bound(configs, limits.dense_doubt * dense_us, {}, &PredictedConfig::predicted_us);
  const auto hopeful = static_cast<std::size_t>(too_slow - configs.begin());
  return configs.first(std::min(configs.size(), std::max(hopeful, kLookedAt)));
}

// What one N asks for, best first.
std::vector<std::string> asked_for(PredictedConfigs configs, const std::vector<std::string>& names,
                                   const SelectionLimits& limits) {
  std::vector<std::string> asked;
  std::set<std::string> families;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (std::find(asked.begin(), asked.end(), names[i]) != asked.end()) continue;
    const bool first_of_family = families.insert(configs[i].config.family).second;
    const bool in_doubt = configs[i].predicted_us <= limits.family_doubt * configs[0].predicted_us;
    const bool among_the_best = asked.size() < static_cast<std::size_t>(std::max(limits.packings, 1));
    if (among_the_best || (first_of_family && in_doubt)) asked.push_back(names[i]);
  }
  return asked;
}

constexpr double kPromising = 1.25;  // predicted to be slower than the best by no more than this

constexpr std::size_t kForAll = 3;  // packings that might serve every N alone

// Of packings in the order of `ranked`, the first that serve every N within limits.common_doubt: where memory is
// scarce, a weight keeps one for all.
std::set<std::string> for_all(const Best& best, const std::vector<std::string>& ranked, std::size_t count_of_tokens,
                              const std::map<std::int64_t, double>& dense_us, const SelectionLimits& limits) {
  std::set<std::string> names;
  for (const std::string& name : ranked) {
    const auto& at = best.at(name);
    const bool serves =
        at.size() == count_of_tokens && std::ranges::all_of(at, [&](const auto& each) {
          const auto dense = dense_us.find(each.first);
          return dense != dense_us.end() && each.second->predicted_us <= limits.common_doubt * dense->second;
        });
    if (serves && names.size() < kForAll) names.insert(name);
  }
  return names;
}

// The configs that compete at one N: a share for each packing that it asks for, and one of each promising other and of
// each for all N.
std::vector<PredictedConfig> competing(PredictedConfigs configs, const std::vector<std::string>& names,
                                       const std::vector<std::string>& asked, const std::set<std::string>& kept,
                                       const std::set<std::string>& common, const SelectionLimits& limits) {
  std::map<std::string, int> left;
  for (const std::string& name : kept) left[name] = 1;
  const int share = std::max<int>(1, limits.candidates / std::max<int>(1, static_cast<int>(asked.size())));
  for (const std::string& name : asked) left[name] = share;
  std::vector<PredictedConfig> chosen;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const auto found = left.find(names[i]);
    if (found == left.end() || found->second == 0) continue;
    const bool own = std::find(asked.begin(), asked.end(), names[i]) != asked.end();
    const bool promising = configs[i].predicted_us <= kPromising * configs[0].predicted_us;
    if (!own && !promising && !common.contains(names[i])) continue;
    --found->second;
    chosen.push_back(configs[i]);
  }
  return chosen;
}

}  // namespace

CandidateSelection select_from(std::map<std::int64_t, SearchSpace> spaces, const std::map<std::int64_t, double>& calls,
                               const std::function<std::string(const Config&)>& packing_of,
                               const SelectionLimits& limits, const std::map<std::int64_t, double>& dense_us) {
  CandidateSelection selection;
  Best best;
  std::map<std::int64_t, std::vector<std::string>> names;  // packing of each config
  std::map<std::int64_t, std::vector<std::string>> asked;
  std::map<std::int64_t, PredictedConfigs> hopeful;
  std::set<std::string> kept;
  for (const auto& [tokens, space] : spaces) {
    selection.considered += static_cast<std::int64_t>(space.configs.size());
    for (const auto& [rule, count] : space.cuts) selection.cuts[rule] += count;
    for (const PredictedConfig& predicted : space.configs) {
      const std::string& name = names[tokens].emplace_back(packing_of(predicted.config));
      best[name].emplace(tokens, &predicted);  // configs ascend: the first is the best
    }
    const auto dense = dense_us.find(tokens);
    hopeful[tokens] = beside_dense(space.configs, dense == dense_us.end() ? 0.0 : dense->second, limits);
    asked[tokens] = asked_for(hopeful[tokens], names[tokens], limits);
    kept.insert(asked[tokens].begin(), asked[tokens].end());
  }
  const std::vector<std::string> ranked = by_sum(best, calls);
  if (!ranked.empty()) kept.insert(ranked.front());
  const std::set<std::string> common = for_all(best, ranked, spaces.size(), dense_us, limits);
  kept.insert(common.begin(), common.end());
  for (const auto& [tokens, space] : spaces) {
    selection.configs[tokens] = competing(hopeful[tokens], names[tokens], asked[tokens], kept, common, limits);
  }
  selection.spaces = std::move(spaces);
  return selection;
}

CandidateSelection select_candidates(const Problem& problem, const std::vector<std::int64_t>& tokens,
                                     const std::vector<double>& calls, const SparsityStatistics& statistics,
                                     const SelectionLimits& limits) {
  std::vector<SearchSpace> found(tokens.size());
  parallel_for(static_cast<std::int64_t>(tokens.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Problem at = problem;
      at.tokens = tokens[i];
      found[i] = search_space(at, statistics);
      if (limits.families.empty()) continue;
      std::erase_if(found[i].configs, [&](const PredictedConfig& predicted) {
        return std::ranges::find(limits.families, predicted.config.family) == limits.families.end();
      });
    }
  });
  std::map<std::int64_t, SearchSpace> spaces;
  std::map<std::int64_t, double> calls_of;
  std::map<std::int64_t, double> dense_us;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    spaces.emplace(tokens[i], std::move(found[i]));
    calls_of[tokens[i]] = calls[i];
    Problem at = problem;
    at.tokens = tokens[i];
    dense_us[tokens[i]] = baseline_us(at);
  }
  const auto packing_of = [&](const Config& config) { return family(config.family)->packing(config, problem); };
  return select_from(std::move(spaces), calls_of, packing_of, limits, dense_us);
}

}  // namespace sparsmith
