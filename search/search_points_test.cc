#include "search/search_points.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace sparsmith {
namespace {

constexpr std::int64_t kTokens = 8;

// Configs of the family `rows` in ascending order of prediction, the first three of which were selected.
CandidateSelection selection_of(int configs) {
  CandidateSelection selection;
  for (int i = 0; i < configs; ++i) {
    Config config{"rows", {}};
    for (const Parameter& parameter : family("rows")->parameters())
      config.values[parameter.name] = parameter.values.front();
    config.values["threads_per_block"] = i;
    selection.spaces[kTokens].entries.push_back({config, 5.0 + i});
  }
  const auto& entries = selection.spaces[kTokens].entries;
  selection.entries[kTokens].assign(entries.begin(), entries.begin() + 3);
  return selection;
}

SearchPoints points_of(const CandidateSelection& selection, const SearchScope& scope,
                       const SearchSpace::Entry* incumbent = nullptr) {
  const Problem problem{{64, 96, DataType::kFloat16}, kTokens, typical_device(90)};
  return search_points(problem, selection, incumbent, scope);
}

TEST(SearchPointsTest, ARaceKnowsWhatWasNotSelected) {
  const CandidateSelection selection = selection_of(10);
  const SearchPoints points = points_of(selection, {});
  EXPECT_EQ(points.selected, (std::vector<std::size_t>{0, 1, 2}));
  ASSERT_EQ(points.points.size(), 10U);
  std::set<std::string> configs;
  for (const SpacePoint& point : points.points) configs.insert(point.config.text());
  EXPECT_EQ(configs.size(), 10U) << "each once";
  EXPECT_FALSE(points.points.back().packing.empty());
}

TEST(SearchPointsTest, TheIncumbentComesFirstAndOnce) {
  const CandidateSelection selection = selection_of(10);
  const SearchSpace::Entry incumbent = selection.spaces.at(kTokens).entries[6];
  const SearchPoints points = points_of(selection, {}, &incumbent);
  EXPECT_TRUE(points.points.front().incumbent);
  EXPECT_EQ(points.selected.size(), 4U);
  EXPECT_EQ(points.points.size(), 10U);
}

TEST(SearchPointsTest, WhereNothingIsTimedWhatWasSelectedIsAll) {
  EXPECT_EQ(points_of(selection_of(10), {.selected_only = true}).points.size(), 3U);
}

TEST(SearchPointsTest, ARaceLooksThroughNoMoreThanPays) {
  const CandidateSelection selection = selection_of(12'000);
  EXPECT_EQ(points_of(selection, {}).points.size(), 10'000U);
  EXPECT_EQ(points_of(selection, {.strategy = StrategyKind::kRandom}).points.size(), 12'000U);
}

}  // namespace
}  // namespace sparsmith
