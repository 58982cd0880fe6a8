#include "search/strategy/search_points.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace sparsmith {
namespace {

constexpr std::int64_t kTokens = 8;
constexpr std::size_t kBaseline = 8;  // configs of dense

// Configs of the family `rows` in ascending order of prediction, the first three of which were selected.
CandidateSelection selection_of(int configs) {
  CandidateSelection selection;
  for (int i = 0; i < configs; ++i) {
    Config config{"rows", {}};
    for (const Parameter& parameter : family("rows")->parameters)
      config.values[parameter.name] = parameter.values.front();
    config.values["threads_per_block"] = i;
    selection.spaces[kTokens].configs.push_back({config, 5.0 + i});
  }
  const auto& entries = selection.spaces[kTokens].configs;
  selection.configs[kTokens].assign(entries.begin(), entries.begin() + 3);
  return selection;
}

SearchPoints points_of(const CandidateSelection& selection, const SearchScope& scope,
                       const PredictedConfig* incumbent = nullptr) {
  const Problem problem{{64, 96, DataType::kFloat16}, kTokens, typical_device(90)};
  return search_points(problem, selection, incumbent, scope);
}

TEST(SearchPointsTest, ARaceKnowsWhatWasNotSelected) {
  const CandidateSelection selection = selection_of(10);
  const SearchPoints points = points_of(selection, {});
  EXPECT_EQ(points.selected, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  ASSERT_EQ(points.points.size(), kBaseline + 10);
  for (std::size_t i = 0; i < points.points.size(); ++i) EXPECT_EQ(points.points[i].baseline, i < kBaseline) << i;
  std::set<std::string> configs;
  for (const SpacePoint& point : points.points) configs.insert(point.config.text());
  EXPECT_EQ(configs.size(), kBaseline + 10) << "each once";
  EXPECT_FALSE(points.points.back().packing.empty());
}

TEST(SearchPointsTest, TheIncumbentComesFirstAndOnce) {
  const CandidateSelection selection = selection_of(10);
  const PredictedConfig incumbent = selection.spaces.at(kTokens).configs[6];
  const SearchPoints points = points_of(selection, {}, &incumbent);
  EXPECT_TRUE(points.points.front().incumbent);
  EXPECT_EQ(points.selected.size(), kBaseline + 4);
  EXPECT_EQ(points.points.size(), kBaseline + 10);
  const PredictedConfig dense{{"dense", {{"proposal", 3}}}, 5};
  const SearchPoints of_dense = points_of(selection, {}, &dense);
  EXPECT_TRUE(of_dense.points.front().incumbent && of_dense.points.front().baseline);
  EXPECT_EQ(of_dense.points.size(), kBaseline + 10);
}

// What a weight of the same shape was served best by.
TEST(SearchPointsTest, TheBaselineMayBeOneOfAFew) {
  const std::vector<Config> few = {{"dense", {{"proposal", 1}}}, {"dense", {{"proposal", 4}}}};
  const SearchPoints points = points_of(selection_of(10), {.baseline = few});
  ASSERT_EQ(points.points.size(), 12U);
  EXPECT_EQ(points.points[0].config, few[0]);
  EXPECT_EQ(points.points[1].config, few[1]);
  EXPECT_EQ(points.selected.size(), 5U);
}

TEST(SearchPointsTest, WhereNothingIsTimedWhatWasSelectedIsAll) {
  EXPECT_EQ(points_of(selection_of(10), {.selected_only = true}).points.size(), 4U) << "one is dense";
}

TEST(SearchPointsTest, ARaceLooksThroughNoMoreThanPays) {
  const CandidateSelection selection = selection_of(12'000);
  EXPECT_EQ(points_of(selection, {}).points.size(), kBaseline + 10'000);
  EXPECT_EQ(points_of(selection, {.strategy = StrategyKind::kExhaustive, .most = 20'000}).points.size(),
            kBaseline + 12'000);
}

}  // namespace
}  // namespace sparsmith
