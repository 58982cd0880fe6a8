#include "search/strategy/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "search/strategy/strategy_run.h"

namespace sparsmith {
namespace {

using TimeOf = std::function<double(const SpacePoint&)>;  // microseconds; 0: fails

// A space of the families "a" and "b" with three parameters of four values each, the packing named by the family and
// the value of "q"; of each family the first eight are selected, all of them with q = 0 or 1.
SearchPoints space() {
  SearchPoints points;
  for (const std::string family : {"a", "b"}) {
    for (int index = 0; index < 64; ++index) {
      SpacePoint& point = points.points.emplace_back();
      point.config = {family, {{"p", index % 4}, {"q", index / 4 % 4}, {"r", index / 16}}};
      point.packing = family + std::to_string(index / 4 % 4);
      point.predicted_us = 10 + 0.05 * index;
      if (index < 8) points.selected.push_back(points.points.size() - 1);
    }
  }
  return points;
}

class Bench : public TrialBench {
 public:
  Bench(const SearchPoints& points, TimeOf time) : points_(points), time_(std::move(time)) {}
  bool known(const TrialRequest&) override { return false; }
  Result<TrialOutcome> attempt(const TrialRequest& request) override {
    const double us = time_(points_.points[request.point]);
    tried.insert(request.point);
    return TrialOutcome{request.point, us > 0, us};
  }

  std::set<std::size_t> tried;
  std::vector<std::set<std::size_t>> batches;

 private:
  const SearchPoints& points_;
  TimeOf time_;
};

Bench race(const SearchPoints& points, TimeOf time) {
  Bench bench(points, std::move(time));
  const auto strategy = make_race(points);
  StrategyRun run(*strategy, points, {});
  while (run.propose()) {
    std::set<std::size_t>& batch = bench.batches.emplace_back();
    for (const TrialRequest& request : run.batch()) batch.insert(request.point);
    EXPECT_TRUE(run.attempt(bench).ok());
  }
  EXPECT_TRUE(run.complete());
  return bench;
}

double best_of(const SearchPoints& points, const Bench& bench, const TimeOf& time) {
  double best = 1e9;
  for (const std::size_t point : bench.tried) best = std::min(best, time(points.points[point]));
  return best;
}

TEST(RaceTest, DoesNotLookFurtherWhereDenseIsFarAhead) {
  SearchPoints points = space();
  const TimeOf time = [](const SpacePoint& point) {
    return point.predicted_us * (point.config.family == "a" ? 2 : 1) * (point.config.at("q") == 3 ? 0.7 : 1);
  };
  points.dense_us = 4.9;
  EXPECT_EQ(race(points, time).tried.size(), points.selected.size());
  points.dense_us = 5.1;
  EXPECT_GT(race(points, time).tried.size(), points.selected.size());
}

TEST(RaceTest, TheBaselineIsTheFirstBatch) {
  SearchPoints points = space();
  for (const std::size_t dense : {points.selected[3], points.selected[9]}) points.points[dense].baseline = true;
  const Bench bench = race(points, [](const SpacePoint& point) { return point.predicted_us; });
  ASSERT_GE(bench.batches.size(), 2U);
  std::set<std::size_t> others(points.selected.begin(), points.selected.end());
  const std::set<std::size_t> baseline = {points.selected[3], points.selected[9]};
  for (const std::size_t dense : baseline) others.erase(dense);
  EXPECT_EQ(bench.batches[0], baseline);
  EXPECT_EQ(bench.batches[1], others);
}

TEST(RaceTest, FindsWhatNothingSelectedHas) {
  // Family "a" takes twice what is predicted; what is best has a value that nothing selected has.
  const SearchPoints points = space();
  const TimeOf time = [](const SpacePoint& point) {
    return point.predicted_us * (point.config.family == "a" ? 2 : 1) * (point.config.at("q") == 3 ? 0.7 : 1);
  };
  const Bench bench = race(points, time);
  double best = 1e9;
  for (const SpacePoint& point : points.points) best = std::min(best, time(point));
  EXPECT_EQ(best_of(points, bench, time), best);
  EXPECT_LE(bench.tried.size(), points.selected.size() + 24);
}

TEST(RaceTest, AWaveAsksForFewNewPackings) {
  SearchPoints points = space();
  for (std::size_t i = 0; i < points.points.size(); ++i) points.points[i].packing = std::to_string(i);
  const Bench bench = race(points, [](const SpacePoint& point) { return point.predicted_us; });
  ASSERT_GE(bench.batches.size(), 2U);
  EXPECT_EQ(bench.batches[1].size(), 4U) << "each has a packing of its own";
}

TEST(RaceTest, EndsWhereNothingBetterIsToBeHoped) {
  SearchPoints points = space();
  for (SpacePoint& point : points.points) point.predicted_us *= point.predicted_us > 10.36 ? 10 : 1;
  const Bench bench = race(points, [](const SpacePoint& point) { return point.predicted_us; });
  EXPECT_EQ(bench.tried.size(), points.selected.size());
}

TEST(RaceTest, LooksAroundTheBest) {
  // Two parameters together do what neither does alone, a step away from the best that is selected, and nothing
  // predicts it.
  SearchPoints points = space();
  const Config best_selected{"a", {{"p", 2}, {"q", 0}, {"r", 0}}};
  const Config next_to_it{"a", {{"p", 2}, {"q", 0}, {"r", 3}}};
  std::ranges::find(points.points, next_to_it, &SpacePoint::config)->predicted_us = 13;
  const TimeOf time = [&](const SpacePoint& point) {
    if (point.config == next_to_it) return 8.0;
    return point.config == best_selected ? 9.0
                                         : point.predicted_us * (1 + 0.2 * std::abs(std::sin(37 * point.predicted_us)));
  };
  EXPECT_EQ(best_of(points, race(points, time), time), 8);
}

TEST(RaceTest, LooksAroundAgainWhereThatFoundSomethingBetter) {
  // Three steps from the best that is selected, each faster than the one before, and nothing predicts them.
  SearchPoints points = space();
  const Config steps[] = {{"a", {{"p", 2}, {"q", 0}, {"r", 0}}},
                          {"a", {{"p", 2}, {"q", 0}, {"r", 3}}},
                          {"a", {{"p", 0}, {"q", 0}, {"r", 3}}}};
  for (const Config& step : {steps[1], steps[2]})
    std::ranges::find(points.points, step, &SpacePoint::config)->predicted_us = 13;
  const TimeOf time = [&](const SpacePoint& point) {
    for (int i = 0; i < 3; ++i)
      if (point.config == steps[i]) return 9.0 - i;
    return point.predicted_us * (1 + 0.2 * std::abs(std::sin(37 * point.predicted_us)));
  };
  EXPECT_EQ(best_of(points, race(points, time), time), 7);
}

TEST(RaceTest, ANewPackingMustPromiseMore) {
  // One candidate has the packing of those that are selected, the other promises a little more with a packing of its
  // own. A wave is one candidate here.
  for (const double promise : {0.97, 0.9}) {
    SearchPoints points;
    for (int p = 0; p < 4; ++p) {
      SpacePoint& point = points.points.emplace_back();
      point.config = {"a", {{"p", p}}};
      point.packing = p == 3 ? "new" : "known";
      point.predicted_us = p < 2 ? 10 : p == 2 ? 9 : 9 * promise;
      if (p < 2) points.selected.push_back(points.points.size() - 1);
    }
    const Bench bench = race(points, [](const SpacePoint& point) { return point.predicted_us; });
    ASSERT_GE(bench.batches.size(), 2U);
    EXPECT_EQ(bench.batches[1], std::set<std::size_t>{promise > 0.95 ? 2U : 3U}) << promise;
  }
}

TEST(RaceTest, WhereALikeWeightWasAsFastNothingElseIsTried) {
  SearchPoints points = space();
  const TimeOf time = [](const SpacePoint& point) { return point.predicted_us; };
  points.expected_us = 9.5;
  EXPECT_EQ(race(points, time).tried.size(), points.selected.size());
  points.expected_us = 6;
  EXPECT_GT(race(points, time).tried.size(), points.selected.size()) << "there must be something better";
}

TEST(RaceTest, WithNothingTimedThereIsNothingToLearn) {
  const SearchPoints points = space();
  EXPECT_EQ(race(points, [](const SpacePoint&) { return 0.0; }).tried.size(), points.selected.size());
  SearchPoints nobody;
  EXPECT_EQ(race(nobody, {}).tried.size(), 0U);
}

TEST(StillStandingTest, TwoOfAFasterBaselineAndWhoIsNearTheBestOther) {
  SearchPoints points;
  std::vector<TimedPoint> timed;
  for (const double us : {8.0, 9.0, 9.5, 10.0, 12.0, 20.0}) {
    SpacePoint& point = points.points.emplace_back();
    point.baseline = us < 10;
    point.packing = "p";
    timed.push_back({timed.size(), us});
  }
  std::ranges::reverse(timed);
  EXPECT_EQ(fastest_points(points, timed, kFinalists), (std::vector<std::size_t>{0, 1, 3, 4}));
  EXPECT_EQ(fastest_points(points, timed, 1), (std::vector<std::size_t>{0, 1, 3})) << "one other";
}

}  // namespace
}  // namespace sparsmith
