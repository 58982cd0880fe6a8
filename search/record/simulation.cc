#include "search/record/simulation.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "search/strategy/strategy_run.h"

namespace sparsmith {
namespace {

constexpr int kFinalReplays = 15;

class RecordedBench : public TrialBench {
 public:
  RecordedBench(const RecordedSpace& space, const std::vector<std::size_t>& order, std::uint64_t seed)
      : space_(space), order_(order), random_(seed) {}

  bool known(const TrialRequest&) override { return false; }

  Result<TrialOutcome> attempt(const TrialRequest& request) override {
    const RecordedCandidate& candidate = space_.candidates[order_[request.point]];
    if (candidate.ok()) measured_[request.point] = drawn_median(candidate.samples_us, request.replays);
    if (tried_.insert(request.point).second) path_.push_back(leader());
    return TrialOutcome{request.point, candidate.ok(), candidate.ok() ? measured_[request.point] : 0};
  }

  SimulatedSearch finish(const SearchPoints& points) {
    SimulatedSearch search;
    search.tried = tried_.size();
    std::set<std::string> packings;
    for (const std::size_t point : tried_) packings.insert(points.points[point].packing);
    search.packings = packings.size();
    search.path = std::move(path_);
    std::vector<TimedPoint> timed;
    for (const auto& [point, us] : measured_) timed.push_back({point, us});
    if (timed.empty()) return search;
    double fastest = 0;
    for (const std::size_t point : fastest_points(points, std::move(timed), kFinalists)) {
      const RecordedCandidate& candidate = space_.candidates[order_[point]];
      const double us = drawn_median(candidate.samples_us, kFinalReplays);
      if (search.chosen_us != 0 && us >= fastest) continue;
      fastest = us;
      search.chosen_us = candidate.median_us();
    }
    return search;
  }

 private:
  double drawn_median(const std::vector<float>& samples, int replays) {
    std::vector<float> drawn;
    for (int i = 0; i < replays; ++i) drawn.push_back(samples[random_() % samples.size()]);
    return median_of(std::move(drawn));
  }

  float leader() const {
    if (measured_.empty()) return 0;
    const auto best = std::ranges::min_element(measured_, {}, [](const auto& each) { return each.second; });
    return static_cast<float>(space_.candidates[order_[best->first]].median_us());
  }

  const RecordedSpace& space_;
  const std::vector<std::size_t>& order_;
  std::mt19937_64 random_;
  std::map<std::size_t, double> measured_;
  std::set<std::size_t> tried_;
  std::vector<float> path_;
};

}  // namespace

SearchPoints recorded_points(const RecordedSpace& space, const SelectionLimits& selection,
                             std::vector<std::size_t>& order) {
  order.resize(space.candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return space.candidates[i].predicted_us; });
  SearchPoints points;
  std::map<std::string, std::size_t> place;
  std::map<std::int64_t, SearchSpace> spaces;
  for (const std::size_t i : order) {
    const RecordedCandidate& candidate = space.candidates[i];
    SpacePoint point;
    point.config = candidate.config;
    point.packing = candidate.packing;
    point.predicted_us = candidate.predicted_us;
    place.emplace(candidate.config.text(), points.points.size());
    points.points.push_back(std::move(point));
    spaces[space.tokens].configs.push_back({candidate.config, candidate.predicted_us});
  }
  const auto packing_of = [&](const Config& config) { return points.points[place.at(config.text())].packing; };
  const CandidateSelection selected = select_from(std::move(spaces), {{space.tokens, 1.0}}, packing_of, selection);
  for (const PredictedConfig& predicted : selected.configs.at(space.tokens))
    points.selected.push_back(place.at(predicted.config.text()));
  return points;
}

SimulatedSearch simulate(const RecordedSpace& space, const SimulationOptions& options) {
  std::vector<std::size_t> order;
  const SearchPoints points = recorded_points(space, options.selection, order);
  const std::unique_ptr<Strategy> strategy =
      options.make ? options.make(points, options.seed) : make_strategy(options.strategy, points);
  RecordedBench bench(space, order, options.seed);
  SearchEnd end;
  if (options.make || options.strategy != StrategyKind::kRace) end.most_candidates = options.budget;
  (void)run_strategy(*strategy, points, end, bench);  // a recording never fails
  return bench.finish(points);
}

double best_us(const RecordedSpace& space) {
  double best = 0;
  for (const RecordedCandidate& candidate : space.candidates) {
    if (candidate.ok() && (best == 0 || candidate.median_us() < best)) best = candidate.median_us();
  }
  return best;
}

double predicted_choice_us(const RecordedSpace& space) {
  const RecordedCandidate* chosen = nullptr;
  for (const RecordedCandidate& candidate : space.candidates) {
    if (candidate.ok() && (chosen == nullptr || candidate.predicted_us < chosen->predicted_us)) chosen = &candidate;
  }
  return chosen == nullptr ? 0 : chosen->median_us();
}

}  // namespace sparsmith
