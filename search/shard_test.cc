#include "search/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace sparsmith {
namespace {

TEST(ShardTest, IsANumberOfHowMany) {
  const Shard shard = parse_shard("2/8").value();
  EXPECT_EQ(shard.number, 2);
  EXPECT_EQ(shard.count, 8);
  EXPECT_TRUE(parse_shard("1/1").ok());
  for (const char* wrong : {"", "2", "0/8", "9/8", "2/", "/8", "-1/8", "2/8/1", "a/8", "2/b", "+1/8", "1/100001",
                            "99999999999/99999999999"})
    EXPECT_THAT(parse_shard(wrong).status().message(), testing::HasSubstr("is no shard")) << wrong;
}

// The layers of a decoder: seven weights each, of four shapes.
std::vector<ShardWeight> decoder(int layers) {
  std::vector<ShardWeight> weights;
  for (int layer = 0; layer < layers; ++layer) {
    for (const auto& [rows, cols] :
         {std::pair{4096, 4096}, {1024, 4096}, {1024, 4096}, {4096, 4096}, {14336, 4096}, {14336, 4096}, {4096, 14336}})
      weights.push_back({rows, cols, std::int64_t{rows} * cols / 5});
  }
  return weights;
}

TEST(ShardTest, EachWeightIsInOneShard) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<ShardWeight> weights;
    for (std::uint64_t i = random() % 90; i > 0; --i) {
      const std::int64_t rows = 256 << random() % 4;
      const std::int64_t cols = 256 << random() % 2;
      weights.push_back({rows, cols, static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows * cols))});
    }
    const int count = 1 + static_cast<int>(random() % 12);
    std::vector<std::size_t> all;
    for (int number = 1; number <= count; ++number) {
      const std::vector<std::size_t> own = weights_of_shard(weights, {number, count});
      EXPECT_TRUE(std::ranges::is_sorted(own));
      EXPECT_EQ(own, weights_of_shard(weights, {number, count}));
      all.insert(all.end(), own.begin(), own.end());
    }
    std::ranges::sort(all);
    ASSERT_EQ(all.size(), weights.size());
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
  }
}

// The number of full searches of a shard: the shapes that it has.
std::size_t shapes_in(const std::vector<ShardWeight>& weights, const std::vector<std::size_t>& shard) {
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const std::size_t i : shard) shapes.emplace_back(weights[i].rows, weights[i].cols);
  std::ranges::sort(shapes);
  return shapes.size() - std::ranges::unique(shapes).size();
}

TEST(ShardTest, UnitsBeginWithTheFirstWeightOfAShape) {
  const std::vector<ShardWeight> weights = decoder(32);
  const std::vector<TuningUnit> units = tuning_units(weights, 16);
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < units.size(); ++i) {
    EXPECT_TRUE(std::ranges::is_sorted(units[i].weights));
    EXPECT_GT(units[i].work, 0);
    all.insert(all.end(), units[i].weights.begin(), units[i].weights.end());
    if (!units[i].after) {
      EXPECT_EQ(units[i].weights.size(), 1U) << "each shape is more than a sixteenth of the work";
      continue;
    }
    const TuningUnit& first = units[*units[i].after];
    ASSERT_LT(*units[i].after, i);
    EXPECT_FALSE(first.after);
    for (const std::size_t weight : units[i].weights) {
      EXPECT_LT(first.weights.front(), weight) << "one run alone searches the same weight first";
      EXPECT_EQ(weights[weight].rows, weights[first.weights.front()].rows);
    }
  }
  std::ranges::sort(all);
  EXPECT_EQ(all.size(), weights.size());
  EXPECT_EQ(std::ranges::unique(all).begin(), all.end());
  EXPECT_EQ(std::ranges::count_if(units, [](const TuningUnit& unit) { return !unit.after; }), 4) << "four shapes";
  EXPECT_NEAR(static_cast<double>(units.size()), 16, 6);
  EXPECT_EQ(units.front().weights, (std::vector<std::size_t>{4})) << "14336 x 4096 is the most work";
  EXPECT_EQ(tuning_units(weights, 100000).size(), weights.size());
  EXPECT_TRUE(tuning_units({}, 3).empty());
  const std::vector<TuningUnit> few = tuning_units(weights, 2);
  EXPECT_EQ(few.size(), 3U) << "shapes stay whole, small ones together";
  std::size_t shapes = 0;
  for (const TuningUnit& unit : few) {
    EXPECT_FALSE(unit.after);
    shapes += shapes_in(weights, unit.weights);
  }
  EXPECT_EQ(shapes, 4U);
}

TEST(ShardTest, WeightsThatLearnFromEachOtherStayTogether) {
  const std::vector<ShardWeight> weights = decoder(32);
  EXPECT_EQ(weights_of_shard(weights, {1, 1}).size(), 224U);
  std::size_t searches = 0;
  std::size_t least = weights.size();
  for (int number = 1; number <= 8; ++number) {
    const std::vector<std::size_t> shard = weights_of_shard(weights, {number, 8});
    searches += shapes_in(weights, shard);
    least = std::min(least, shard.size());
  }
  EXPECT_LE(searches, 12U) << "four shapes, cut into about eight parts";
  EXPECT_GE(least, 8U);
  // Another density is another search, wherever it is.
  std::vector<ShardWeight> two = {{64, 64, 400}, {64, 64, 800}, {64, 64, 410}, {64, 64, 810}};
  EXPECT_THAT(weights_of_shard(two, {1, 2}), testing::AnyOf(testing::ElementsAre(0, 2), testing::ElementsAre(1, 3)));
  EXPECT_TRUE(weights_of_shard(two, {9, 9}).empty());
  EXPECT_TRUE(weights_of_shard({}, {1, 2}).empty());
}

}  // namespace
}  // namespace sparsmith
