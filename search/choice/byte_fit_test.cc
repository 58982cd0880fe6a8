#include "search/choice/byte_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace sparsmith {
namespace {

using testing::ElementsAre;
using Weights = std::vector<std::vector<ByteOption>>;

ByteOption sum_of(const Weights& weights, const std::vector<std::size_t>& chosen) {
  ByteOption sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum.bytes += weights[i][chosen[i]].bytes;
    sum.us += weights[i][chosen[i]].us;
  }
  return sum;
}

TEST(ByteFitTest, WithRoomEnoughEachIsTheFastest) {
  const Weights weights = {{{10, 5}, {20, 3}}, {{7, 9}, {8, 9}}};
  EXPECT_THAT(fit_bytes(weights, 100), ElementsAre(1, 0)) << "of equally fast ones the smaller";
  EXPECT_THAT(fit_bytes({}, 0), ElementsAre());
}

TEST(ByteFitTest, TheWeightThatLosesLeastGivesWay) {
  // The first saves 10 bytes for 1 us, the second for 5 us.
  const Weights weights = {{{10, 4}, {20, 3}}, {{10, 8}, {20, 3}}};
  EXPECT_THAT(fit_bytes(weights, 39), ElementsAre(0, 1));
  EXPECT_THAT(fit_bytes(weights, 20), ElementsAre(0, 0));
}

TEST(ByteFitTest, RoomThatALargeStepLeavesIsUsed) {
  // The cheapest step a byte is far larger than needed, and makes the small one superfluous.
  const Weights weights = {{{100, 20}, {1000, 10}}, {{10, 5.2}, {20, 5}}};
  EXPECT_THAT(fit_bytes(weights, 1015), ElementsAre(1, 0));
  const Weights twice = {{{0, 10}, {1000, 9}}, {{10, 9}, {20, 5}}};
  EXPECT_THAT(fit_bytes(twice, 100), ElementsAre(0, 1));
  // The second gives back just what the first has too much.
  const Weights exact = {{{20, 11}, {40, 8}}, {{30, 16}, {70, 12}}};
  EXPECT_THAT(fit_bytes(exact, 90), ElementsAre(0, 1));
}

TEST(ByteFitTest, WhatCannotBeMetGetsTheSmallest) {
  const Weights weights = {{{10, 4}, {20, 3}}, {{15, 8}, {12, 9}, {20, 3}}};
  EXPECT_THAT(fit_bytes(weights, 5), ElementsAre(0, 1));
}

TEST(ByteFitTest, TradeoffsAreWhatNoOtherBeats) {
  const std::vector<ByteOption> options = {{20, 3}, {10, 5}, {15, 6}, {10, 5}, {30, 3}, {40, 1}};
  EXPECT_THAT(best_tradeoffs(options), ElementsAre(1, 0, 5));
}

// Against all combinations of small models: always within the bytes where that can be, and close to the best.
TEST(ByteFitTest, IsCloseToTheBestOfAllCombinations) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  double found = 0;
  double possible = 0;
  for (int round = 0; round < 200; ++round) {
    Weights weights(5);
    std::int64_t smallest = 0;
    std::int64_t largest = 0;
    for (std::vector<ByteOption>& options : weights) {
      std::int64_t bytes = 10 + static_cast<std::int64_t>(random() % 50);
      double us = 100;
      smallest += bytes;
      for (int i = 0; i < 3; ++i) {
        options.push_back({bytes, us});
        largest += i == 2 ? bytes : 0;
        bytes += 1 + static_cast<std::int64_t>(random() % 50);
        us *= 0.5 + 0.5 * static_cast<double>(random() % 100) / 100;
      }
    }
    const std::int64_t most = smallest + static_cast<std::int64_t>(random() % (largest - smallest + 1));
    double best = std::numeric_limits<double>::infinity();
    for (int all = 0; all < 243; ++all) {
      std::vector<std::size_t> chosen;
      for (int rest = all, i = 0; i < 5; ++i, rest /= 3) chosen.push_back(static_cast<std::size_t>(rest % 3));
      const ByteOption sum = sum_of(weights, chosen);
      if (sum.bytes <= most) best = std::min(best, sum.us);
    }
    const ByteOption sum = sum_of(weights, fit_bytes(weights, most));
    EXPECT_LE(sum.bytes, most) << "seed " << seed;
    EXPECT_LE(sum.us, 1.5 * best) << "seed " << seed;
    found += sum.us;
    possible += best;
  }
  EXPECT_LE(found, 1.04 * possible) << "seed " << seed;
}

}  // namespace
}  // namespace sparsmith
