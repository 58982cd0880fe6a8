// Strategies on recorded spaces: drawn ones (no device measured them), and those in bench/recorded.
#include "search/simulation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <utility>

#include "search/strategy_run.h"
#include "search/synthetic_space.h"

namespace sparsmith {
namespace {

// Geometric mean of chosen over best, over a few seeds, with the candidates that the race took.
double regret(const RecordedSpace& space, StrategyKind strategy, std::size_t budget, int runs = 5) {
  double sum = 0;
  for (int run = 0; run < runs; ++run) {
    const SimulatedSearch search = simulate(space, {strategy, {}, budget, static_cast<std::uint64_t>(run)});
    sum += std::log((search.chosen_us > 0 ? search.chosen_us : 10 * best_us(space)) / best_us(space));
  }
  return std::exp(sum / runs);
}

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
  for (const StrategyKind strategy : {StrategyKind::kRandom, StrategyKind::kBasinHopping, StrategyKind::kExhaustive})
    EXPECT_EQ(simulate(space, {.strategy = strategy, .budget = 17}).tried, 17U) << strategy_name(strategy);
}

TEST(SimulationTest, TheSameSeedGivesTheSameSearch) {
  const RecordedSpace space = SyntheticSpace{}.draw();
  for (const StrategyKind strategy : kStrategies) {
    const SimulationOptions options{.strategy = strategy, .budget = 40, .seed = 5};
    EXPECT_EQ(simulate(space, options).path, simulate(space, options).path) << strategy_name(strategy);
  }
}

TEST(SimulationTest, LocalSearchTriesEveryPointOnce) {
  const RecordedSpace space = SyntheticSpace{.candidates = 150}.draw();
  EXPECT_EQ(simulate(space, {.strategy = StrategyKind::kBasinHopping, .budget = 10000}).tried, 150U);
}

TEST(SimulationTest, RaceAndLocalSearchBeatRandomInDrawnSpaces) {
  constexpr int kSpaces = 20;
  int race_wins = 0;
  int local_wins = 0;
  for (int i = 0; i < kSpaces; ++i) {
    const RecordedSpace space = SyntheticSpace{.seed = 100 + static_cast<std::uint64_t>(i)}.draw();
    const std::size_t budget = race_budget(space);
    EXPECT_LE(budget, 56U);
    const double random = regret(space, StrategyKind::kRandom, budget);
    race_wins += regret(space, StrategyKind::kRace, budget) <= random ? 1 : 0;
    local_wins += regret(space, StrategyKind::kBasinHopping, budget) <= random ? 1 : 0;
  }
  EXPECT_GE(race_wins, 18);
  EXPECT_GE(local_wins, 16);
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
    race += std::log(regret(space, StrategyKind::kRace, budget, 1)) / kSpaces;
    random += std::log(regret(space, StrategyKind::kRandom, budget, 1)) / kSpaces;
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
  EXPECT_EQ(simulate(space, {.strategy = StrategyKind::kBasinHopping, .budget = 1000}).tried, 100U);
}

// The share of searches, one a seed, that go on from where their first hop led: to what takes `ratio` times as long as
// what they had. A point has four neighbours; whatever is no neighbour is a hop away.
double share_of_accepted_hops(double ratio) {
  SearchPoints points;
  for (int island = 0; island < 3; ++island) {
    for (int i = 0; i < 5; ++i) {
      SpacePoint& point = points.points.emplace_back();
      point.config = {"a", {{"p", island}, {"q", island}, {"r", island}, {"s", i}}};
      point.predicted_us = points.points.size() == 1 ? 1 : 2;
    }
  }
  constexpr int kSearches = 400;
  int accepted = 0;
  for (int seed = 1; seed <= kSearches; ++seed) {
    const auto search = make_strategy(StrategyKind::kBasinHopping, points, static_cast<std::uint64_t>(seed));
    const auto tried = [&](double us) {
      const std::vector<Proposal> batch = search->propose();
      for (const Proposal& each : batch) search->report({each.point, true, us});
      return batch.size();
    };
    EXPECT_EQ(tried(10), 1U) << "seed " << seed;
    EXPECT_EQ(tried(20), 4U) << "seed " << seed << ": the neighbours, none of them faster";
    EXPECT_EQ(tried(10 * ratio), 1U) << "seed " << seed << ": a hop";
    accepted += search->propose().size() == 4 ? 1 : 0;  // its neighbours; or else the next hop
  }
  return static_cast<double>(accepted) / kSearches;
}

TEST(BasinHoppingTest, AHopIsAcceptedTheMoreOftenTheLessItLoses) {
  EXPECT_EQ(share_of_accepted_hops(0.99), 1);
  EXPECT_GT(share_of_accepted_hops(1.001), 0.95);
  EXPECT_NEAR(share_of_accepted_hops(1.05), std::exp(-1), 0.1);
  EXPECT_EQ(share_of_accepted_hops(1.5), 0);
}

TEST(StrategyRunTest, ABudgetCutsShortAndALimitDoesNot) {
  const RecordedSpace space = SyntheticSpace{}.draw();
  std::vector<std::size_t> order;
  const SearchPoints points = recorded_points(space, {}, order);
  struct Bench : TrialBench {
    bool known(const Proposal&) override { return false; }
    Result<TrialOutcome> attempt(const Proposal& proposal) override {
      ++attempts;
      return TrialOutcome{proposal.point, true, 10.0 + static_cast<double>(attempts)};
    }
    int attempts = 0;
  } bench;
  const auto run = [&](const StopCondition& condition, StrategyKind kind = StrategyKind::kRandom) {
    bench.attempts = 0;
    const StopCondition* const conditions[] = {&condition};
    const auto strategy = make_strategy(kind, points, 1);
    return *run_strategy(*strategy, points, conditions, bench);
  };
  EXPECT_FALSE(run(OutOfTime([] { return true; })));
  EXPECT_EQ(bench.attempts, 1) << "one is tried in any case";
  EXPECT_TRUE(run(CandidateLimit(9)));
  EXPECT_EQ(bench.attempts, 9);
  EXPECT_TRUE(run(NoGain(5)));
  EXPECT_EQ(bench.attempts, 6) << "each is slower than the first";

  const auto all_selected = static_cast<int>(points.selected.size());
  const OutOfTime behind_selected([&] { return bench.attempts == all_selected; });
  const StopCondition* const conditions[] = {&behind_selected};
  const auto race = make_strategy(StrategyKind::kRace, points, 1);
  StrategyRun in_batches(*race, points, conditions);
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
    const double race = regret(space, StrategyKind::kRace, budget);
    const double random = regret(space, StrategyKind::kRandom, budget);
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
