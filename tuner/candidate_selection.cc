#include "tuner/candidate_selection.h"

#include <algorithm>
#include <limits>
#include <set>

namespace sparsmith {
namespace {

// The best entry of a packing at each N that it serves.
using Best = std::map<std::string, std::map<std::int64_t, const SearchSpace::Entry*>>;

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
    for (const auto& [tokens, entry] : per_tokens) each.cost += calls.at(tokens) * entry->predicted_us;
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return a.served != b.served ? a.served > b.served : a.cost < b.cost;
  });
  std::vector<std::string> names;
  for (Ranked& each : ranked) names.push_back(std::move(each.name));
  return names;
}

// At each N: the best packing of every family that is not hopeless there.
std::vector<std::string> by_family(const Best& best, const std::map<std::int64_t, double>& calls, double doubt) {
  std::vector<std::string> names;
  for (const auto& [tokens, weight] : calls) {
    std::map<std::string, std::pair<double, std::string>> of_family;  // predicted time, packing
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& [name, per_tokens] : best) {
      const auto found = per_tokens.find(tokens);
      if (found == per_tokens.end()) continue;
      const double predicted = found->second->predicted_us;
      fastest = std::min(fastest, predicted);
      auto [slot, first] = of_family.try_emplace(found->second->config.family, predicted, name);
      if (!first && predicted < slot->second.first) slot->second = {predicted, name};
    }
    for (const auto& [family_name, packing] : of_family) {
      if (packing.first <= doubt * fastest) names.push_back(packing.second);
    }
  }
  return names;
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
  std::vector<std::string> kept = by_sum(best, calls);
  if (!limits.exhaustive) {
    if (kept.size() > static_cast<std::size_t>(limits.packings)) kept.resize(limits.packings);
    for (std::string& name : by_family(best, calls, limits.family_doubt)) {
      if (std::find(kept.begin(), kept.end(), name) == kept.end()) kept.push_back(std::move(name));
    }
  }
  for (const std::string& name : kept) selection.packings.push_back({name, best[name].begin()->second->config});

  for (auto& [tokens, space] : spaces) {
    const auto serving = std::count_if(kept.begin(), kept.end(),
                                       [&, n = tokens](const std::string& name) { return best[name].contains(n); });
    const int share = std::max<int>(1, limits.candidates / std::max<int>(1, static_cast<int>(serving)));
    std::map<std::string, int> left;
    for (const std::string& name : kept) left[name] = limits.exhaustive ? std::numeric_limits<int>::max() : share;
    std::vector<SearchSpace::Entry>& chosen = selection.entries[tokens];
    for (std::size_t i = 0; i < space.entries.size(); ++i) {
      const auto found = left.find(names[tokens][i]);
      if (found == left.end() || found->second == 0) continue;
      --found->second;
      chosen.push_back(space.entries[i]);
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
