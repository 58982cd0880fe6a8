// Strategies on recorded spaces: drawn ones (no device measured them), and those in bench/recorded.
#include "search/record/simulation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <utility>

#include "search/strategy/strategy_run.h"
#include "tests/support/random_strategy.h"
#include "tests/support/synthetic_space.h"

namespace sparsmith {
namespace {

// Geometric mean of chosen over best, over a few seeds.
double regret(const RecordedSpace& space, SimulationOptions options, int runs = 5) {
  double sum = 0;
  for (int run = 0; run < runs; ++run) {
    options.seed = static_cast<std::uint64_t>(run);
    const SimulatedSearch search = simulate(space, options);
    sum += std::log((search.chosen_us > 0 ? search.chosen_us : 10 * best_us(space)) / best_us(space));
  }
  return std::exp(sum / runs);
}

double race_regret(const RecordedSpace& space, int runs = 5) { return regret(space, {}, runs); }
double random_regret(const RecordedSpace& space, std::size_t budget, int runs = 5) {
  return regret(space, {.make = random_strategy, .budget = budget}, runs);
}

// Candidates that the race takes.
std::size_t race_budget(const RecordedSpace& space) { return simulate(space, {.strategy = StrategyKind::kRace}).tried; }

TEST(SimulationTest, ExhaustiveFindsTheBestButForNoise) {
  const RecordedSpace space = SyntheticSpace{}.draw();
  const SimulatedSearch search = simulate(space, {.strategy = StrategyKind::kExhaustive, .budget = 10000});
  EXPECT_EQ(search.tried, space.candidates.size());
  EXPECT_LE(search.chosen_us, 1.02 * best_us(space));
  EXPECT_EQ(search.path.size(), search.tried);
}

TEST(SimulationTest, AStopConditionEndsASearch) {
  const RecordedSpace space = SyntheticSpace{}.draw();
  EXPECT_EQ(simulate(space, {.make = random_strategy, .budget = 17}).tried, 17U);
  EXPECT_EQ(simulate(space, {.strategy = StrategyKind::kExhaustive, .budget = 17}).tried, 17U);
}

TEST(SimulationTest, TheSameSeedGivesTheSameSearch) {
  const RecordedSpace space = SyntheticSpace{}.draw();
  for (const StrategyKind strategy : kStrategies) {
    const SimulationOptions options{.strategy = strategy, .budget = 40, .seed = 5};
    EXPECT_EQ(simulate(space, options).path, simulate(space, options).path) << strategy_name(strategy);
  }
}

TEST(SimulationTest, RaceBeatsRandomInDrawnSpaces) {
  constexpr int kSpaces = 20;
  int race_wins = 0;
  for (int i = 0; i < kSpaces; ++i) {
    const RecordedSpace space = SyntheticSpace{.seed = 100 + static_cast<std::uint64_t>(i)}.draw();
    const std::size_t budget = race_budget(space);
    EXPECT_LE(budget, 56U);
    race_wins += race_regret(space) <= random_regret(space, budget) ? 1 : 0;
  }
  EXPECT_GE(race_wins, 18);
}

// Predictions that say nothing.
RecordedSpace without_guide(std::uint64_t seed) {
  RecordedSpace space = SyntheticSpace{.seed = seed}.draw();
  std::mt19937_64 draw(7);
  for (RecordedCandidate& candidate : space.candidates)
    candidate.predicted_us = 1 + 1e-9 * static_cast<double>(draw() % 1000000);
  return space;
}

// Mean of ln(chosen over best) in 20 spaces, of the race and of random with as many candidates.
std::pair<double, double> race_and_random(const std::function<RecordedSpace(std::uint64_t)>& drawn) {
  constexpr int kSpaces = 20;
  double race = 0;
  double random = 0;
  for (int i = 0; i < kSpaces; ++i) {
    const RecordedSpace space = drawn(200 + static_cast<std::uint64_t>(i));
    const std::size_t budget = race_budget(space);
    race += std::log(race_regret(space, 1)) / kSpaces;
    random += std::log(random_regret(space, budget, 1)) / kSpaces;
  }
  return {race, random};
}

TEST(SimulationTest, TheRaceLearnsWithoutAGuide) {
  const auto [race, random] = race_and_random(without_guide);
  EXPECT_LT(race, 0.5 * random);
}

TEST(SimulationTest, ASearchThatCanLearnNothingIsRandom) {
  // Times are anyone's: the race is then no better than a draw, and must not seem so.
  const auto [race, random] = race_and_random([](std::uint64_t seed) {
    RecordedSpace space = without_guide(seed);
    std::mt19937_64 draw(11);
    for (std::size_t i = space.candidates.size(); i > 1; --i) {
      const std::size_t other = draw() % i;
      std::swap(space.candidates[i - 1].samples_us, space.candidates[other].samples_us);
      std::swap(space.candidates[i - 1].status, space.candidates[other].status);
    }
    return space;
  });
  EXPECT_NEAR(race, random, 0.1);
}

// What fails is an outcome as any other.
TEST(SimulationTest, ASpaceWhereMostFails) {
  const RecordedSpace space = SyntheticSpace{.candidates = 100, .failures = 0.95}.draw();
  ASSERT_GT(best_us(space), 0);
  for (const StrategyKind strategy : kStrategies) {
    const SimulatedSearch search = simulate(space, {.strategy = strategy, .budget = 100});
    EXPECT_GT(search.tried, 0U) << strategy_name(strategy);
  }
  EXPECT_EQ(simulate(space, {.strategy = StrategyKind::kExhaustive, .budget = 1000}).tried, 100U);
}

TEST(StrategyRunTest, ABudgetCutsShortAndALimitDoesNot) {
  const RecordedSpace space = SyntheticSpace{}.draw();
  std::vector<std::size_t> order;
  const SearchPoints points = recorded_points(space, {}, order);
  struct Bench : TrialBench {
    bool known(const TrialRequest&) override { return false; }
    Result<TrialOutcome> attempt(const TrialRequest& request) override {
      ++attempts;
      return TrialOutcome{request.point, true, 10.0 + static_cast<double>(attempts)};
    }
    int attempts = 0;
  } bench;
  const auto run = [&](const SearchEnd& end) {
    bench.attempts = 0;
    const auto strategy = random_strategy(points, 1);
    return *run_strategy(*strategy, points, end, bench);
  };
  EXPECT_FALSE(run({.out_of_time = [] { return true; }}));
  EXPECT_EQ(bench.attempts, 1) << "one is tried in any case";
  EXPECT_TRUE(run({.most_candidates = 9}));
  EXPECT_EQ(bench.attempts, 9);

  const auto all_selected = static_cast<int>(points.selected.size());
  const auto race = make_strategy(StrategyKind::kRace, points);
  StrategyRun in_batches(*race, points, {.out_of_time = [&] { return bench.attempts == all_selected; }});
  bench.attempts = 0;
  EXPECT_TRUE(in_batches.propose());
  EXPECT_TRUE(in_batches.attempt(bench).ok());
  EXPECT_FALSE(in_batches.propose()) << "a wave that will not have its turn is not asked for";
  EXPECT_FALSE(in_batches.complete());
}

// Real ones, in files bench/recorded/*spaces*.jsonl.gz: race against random at equal budget in at least 90 % of them,
// and nearer to the best than a race that tries no more than predictions select (1.009 and 1.093).
TEST(SimulationTest, RaceBeatsRandomInRecordedSpaces) {
  std::vector<RecordedSpace> spaces;
  if (std::filesystem::exists(SPARSMITH_RECORDED)) {
    for (const auto& entry : std::filesystem::directory_iterator(SPARSMITH_RECORDED)) {
      const std::string name = entry.path().filename().string();
      if (name.find("spaces") == std::string::npos || !name.ends_with(".jsonl.gz")) continue;
      auto read = read_spaces(entry.path().string());
      ASSERT_TRUE(read.ok()) << read.status().to_string();
      std::ranges::move(*read, std::back_inserter(spaces));
    }
  }
  spaces = join_spaces(std::move(spaces));
  ASSERT_FALSE(spaces.empty()) << "bench/recorded holds no space that a GPU measured";
  std::size_t wins = 0;
  double sum = 0;
  double worst = 0;
  for (const RecordedSpace& space : spaces) {
    ASSERT_GT(best_us(space), 0) << space.title();
    const std::size_t budget = race_budget(space);
    const double race = race_regret(space);
    const double random = random_regret(space, budget);
    wins += race <= random ? 1 : 0;
    sum += std::log(race);
    worst = std::max(worst, race);
    if (race > random) std::printf("%s: race %.3f, random %.3f\n", space.title().c_str(), race, random);
  }
  EXPECT_GE(static_cast<double>(wins), 0.9 * static_cast<double>(spaces.size()));
  const double mean = std::exp(sum / static_cast<double>(spaces.size()));
  std::printf("race: geometric mean %.4f, worst %.3f\n", mean, worst);
  EXPECT_LE(mean, 1.006);
  EXPECT_LE(worst, 1.07);
}

}  // namespace
}  // namespace sparsmith
