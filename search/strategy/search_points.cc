#include "search/strategy/search_points.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "generator/family.h"

namespace sparsmith {
SearchPoints search_points(const Problem& problem, const CandidateSelection& selection,
                           const PredictedConfig* incumbent, const SearchScope& scope) {
  SearchPoints points;
  std::set<std::string> seen;
  const auto add = [&](const PredictedConfig& each) {
    if (!seen.insert(each.config.text()).second) return;
    SpacePoint& point = points.points.emplace_back();
    point.config = each.config;
    point.packing = family(each.config.family)->packing(each.config, problem);
    point.predicted_us = each.predicted_us;
    point.baseline = is_baseline(each.config);
  };
  if (incumbent != nullptr) {
    add(*incumbent);
    points.points.back().incumbent = true;
  }
  for (const PredictedConfig& each : baseline_space(problem).configs) {
    if (!scope.baseline.empty() && std::ranges::find(scope.baseline, each.config) == scope.baseline.end()) continue;
    add(each);
    if (scope.selected_only) break;
  }
  const auto baseline = static_cast<std::size_t>(std::ranges::count(points.points, true, &SpacePoint::baseline));
  const auto configs = selection.configs.find(problem.tokens);
  if (configs != selection.configs.end()) {
    for (const PredictedConfig& each : configs->second) add(each);
  }
  points.selected.resize(points.points.size());
  std::iota(points.selected.begin(), points.selected.end(), std::size_t{0});
  const auto space = selection.spaces.find(problem.tokens);
  if (scope.selected_only || space == selection.spaces.end()) return points;

  const std::vector<PredictedConfig>& all = space->second.configs;
  std::vector<std::size_t> order(all.size());
  if (scope.strategy == StrategyKind::kRace) order.resize(std::min(all.size(), scope.most));
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool draws = scope.strategy == StrategyKind::kExhaustive && all.size() > scope.most;
  if (draws) {
    std::mt19937_64 random(scope.seed);
    // Not std::shuffle, whose order differs between libraries.
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  }
  for (const std::size_t i : order) {
    if (draws && points.points.size() >= scope.most + baseline) break;
    add(all[i]);
  }
  return points;
}

}  // namespace sparsmith
