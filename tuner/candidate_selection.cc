#include "tuner/candidate_selection.h"

#include <algorithm>
#include <limits>
#include <set>

namespace sparsmith {
namespace {

struct Ranked {
  std::string name;
  Config config;
  double cost = 0;
  std::size_t covered = 0;  // N for which it has a config
};

using Best = std::map<std::string, std::map<std::int64_t, const SearchSpace::Entry*>>;  // packing -> N -> best

std::vector<Ranked> rank(const Best& best, const std::map<std::int64_t, double>& calls) {
  std::vector<Ranked> ranked;
  for (const auto& [name, per_tokens] : best) {
    Ranked& each = ranked.emplace_back(Ranked{name, per_tokens.begin()->second->config, 0, per_tokens.size()});
    for (const auto& [tokens, entry] : per_tokens) each.cost += calls.at(tokens) * entry->predicted_us;
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return a.covered != b.covered ? a.covered > b.covered : a.cost < b.cost;
  });
  return ranked;
}

}  // namespace

CandidateSelection select_from(std::map<std::int64_t, SearchSpace> spaces, const std::map<std::int64_t, double>& calls,
                               const std::function<std::string(const Config&)>& packing_of,
                               const SelectionLimits& limits) {
  CandidateSelection selection;
  Best best;
  std::map<std::int64_t, std::vector<std::string>> names;  // packing of each entry
  for (const auto& [tokens, space] : spaces) {
    selection.considered += static_cast<std::int64_t>(space.entries.size());
    for (const auto& [rule, count] : space.cuts) selection.cuts[rule] += count;
    for (const SearchSpace::Entry& entry : space.entries) {
      const std::string& name = names[tokens].emplace_back(packing_of(entry.config));
      best[name].emplace(tokens, &entry);  // entries ascend: the first is the best
    }
  }
  std::vector<Ranked> ranked = rank(best, calls);
  if (!limits.exhaustive && ranked.size() > static_cast<std::size_t>(limits.packings)) ranked.resize(limits.packings);
  for (const Ranked& each : ranked) selection.packings.push_back({each.name, each.config});

  const int share = ranked.empty() ? 0 : std::max<int>(1, limits.candidates / static_cast<int>(ranked.size()));
  for (auto& [tokens, space] : spaces) {
    std::map<std::string, int> left;
    for (const Ranked& each : ranked) left[each.name] = limits.exhaustive ? std::numeric_limits<int>::max() : share;
    std::vector<SearchSpace::Entry>& kept = selection.entries[tokens];
    for (std::size_t i = 0; i < space.entries.size(); ++i) {
      const auto found = left.find(names[tokens][i]);
      if (found == left.end() || found->second == 0) continue;
      --found->second;
      kept.push_back(std::move(space.entries[i]));
    }
  }
  return selection;
}

CandidateSelection select_candidates(const Problem& problem, const std::vector<std::int64_t>& tokens,
                                     const std::vector<double>& calls, const SparsityStatistics& statistics,
                                     const SelectionLimits& limits) {
  std::map<std::int64_t, SearchSpace> spaces;
  std::map<std::int64_t, double> calls_of;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Problem at = problem;
    at.tokens = tokens[i];
    SearchSpace& space = spaces[tokens[i]] = search_space(at, statistics);
    if (!limits.families.empty()) {
      std::erase_if(space.entries, [&](const SearchSpace::Entry& entry) {
        return std::find(limits.families.begin(), limits.families.end(), entry.config.family) == limits.families.end();
      });
    }
    calls_of[tokens[i]] = calls[i];
  }
  const auto packing_of = [&](const Config& config) { return family(config.family)->packing(config, problem); };
  return select_from(std::move(spaces), calls_of, packing_of, limits);
}

}  // namespace sparsmith
