#include "search/strategy/candidate_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sparsmith {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Packings are named by the value of their one parameter.
PredictedConfig predicted(const std::string& family, std::int64_t packing, double predicted_us) {
  PredictedConfig made;
  made.config = {family, {{"p", packing}}};
  made.predicted_us = predicted_us;
  return made;
}

std::string packing_of(const Config& config) { return config.family + std::to_string(config.values.at("p")); }

std::vector<std::string> at(const CandidateSelection& selection, std::int64_t tokens) {
  std::vector<std::string> result;
  for (const PredictedConfig& predicted : selection.configs.at(tokens)) result.push_back(packing_of(predicted.config));
  return result;
}

TEST(CandidateSelectionTest, EachNAsksForItsBestAndTheBestSumCompetes) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[1].configs = {predicted("a", 1, 1), predicted("a", 2, 1.1), predicted("a", 3, 9)};
  spaces[8].configs = {predicted("a", 4, 3), predicted("a", 2, 3.1), predicted("a", 1, 6), predicted("a", 3, 7)};
  const CandidateSelection selection = select_from(spaces, {{1, 1.0}, {8, 1.0}}, packing_of, {.packings = 1});
  EXPECT_THAT(at(selection, 1), ElementsAre("a1", "a2"));
  EXPECT_THAT(at(selection, 8), ElementsAre("a4", "a2"));  // a1 is no promising one
}

TEST(CandidateSelectionTest, WhatIsNotPromisingHidesNothingBehindIt) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[1].configs = {predicted("a", 1, 1)};
  spaces[8].configs = {predicted("a", 2, 4), predicted("a", 1, 6), predicted("b", 1, 7)};
  const CandidateSelection selection =
      select_from(spaces, {{1, 1.0}, {8, 1.0}}, packing_of, {.packings = 1, .family_doubt = 2});
  EXPECT_THAT(at(selection, 8), ElementsAre("a2", "b1"));  // a1, which N = 1 asks for, is far behind a2
}

TEST(CandidateSelectionTest, SumsAreWeightedByCalls) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[1].configs = {predicted("a", 1, 1), predicted("a", 3, 1.1), predicted("a", 2, 1.2)};
  spaces[8].configs = {predicted("a", 4, 3), predicted("a", 2, 3.1), predicted("a", 3, 3.6)};
  const auto selected = [&](double calls_of_one) {
    return select_from(spaces, {{1, calls_of_one}, {8, 1.0}}, packing_of, {.packings = 1});
  };
  EXPECT_THAT(at(selected(1), 1), ElementsAre("a1", "a2"));
  EXPECT_THAT(at(selected(9), 1), ElementsAre("a1", "a3"));
}

TEST(CandidateSelectionTest, AFamilyInDoubtCompetes) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[8].configs = {predicted("panel", 7, 4), predicted("panel", 6, 5), predicted("rows", 1, 8),
                       predicted("rows", 2, 9), predicted("hopeless", 1, 50)};
  EXPECT_THAT(at(select_from(spaces, {{8, 1.0}}, packing_of, {.packings = 1, .family_doubt = 2.5}), 8),
              ElementsAre("panel7", "rows1"));
  EXPECT_THAT(at(select_from(spaces, {{8, 1.0}}, packing_of, {.packings = 3, .family_doubt = 1}), 8),
              ElementsAre("panel7", "panel6", "rows1"));
}

TEST(CandidateSelectionTest, WhereDenseIsFarAheadTwoAreLookedAt) {
  std::map<std::int64_t, SearchSpace> spaces;
  for (int i = 0; i < 20; ++i) {
    spaces[1].configs.push_back(predicted("a", i % 3, 1 + 0.1 * i));
    spaces[4096].configs.push_back(predicted("b", i % 5, 1000 + i));
  }
  const auto with_dense = [&](double small_us, double large_us, double doubt) {
    return select_from(spaces, {{1, 1.0}, {4096, 1.0}}, packing_of, {.dense_doubt = doubt},
                       {{1, small_us}, {4096, large_us}});
  };
  EXPECT_THAT(at(with_dense(4, 300, 2.5), 4096), ElementsAre("b0", "b1"));
  EXPECT_EQ(with_dense(4, 300, 2.5).configs.at(1).size(), 20U);
  EXPECT_EQ(with_dense(0.6, 300, 2.5).configs.at(1).size(), 6U);  // up to 1.5
  EXPECT_EQ(with_dense(4, 500, 2.5).configs.at(4096).size(), 20U);
  EXPECT_EQ(with_dense(4, 300, 0).configs.at(4096).size(), 20U);
  EXPECT_EQ(with_dense(4, 0, 2.5).configs.at(4096).size(), 20U);  // not known
}

// "a" is best at N = 1 and "b" at N = 64; "c", far behind both, is the one that is no slower than dense at either.
TEST(CandidateSelectionTest, WhatMightServeEveryNAloneCompetes) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[1].configs = {predicted("a", 1, 2), predicted("c", 1, 8), predicted("b", 1, 30)};
  spaces[64].configs = {predicted("b", 1, 10), predicted("c", 1, 19), predicted("a", 1, 90)};
  const auto selected = [&](double dense_us, double common_doubt = 1.1) {
    return select_from(spaces, {{1, 1.0}, {64, 1.0}}, packing_of,
                       {.packings = 1, .family_doubt = 1, .dense_doubt = 0, .common_doubt = common_doubt},
                       {{1, 9}, {64, dense_us}});
  };
  EXPECT_THAT(at(selected(18), 1), ElementsAre("a1", "c1"));
  EXPECT_THAT(at(selected(18), 64), ElementsAre("b1", "c1"));
  EXPECT_THAT(at(selected(17), 1), ElementsAre("a1"));
  EXPECT_THAT(at(selected(17, 1.2), 1), ElementsAre("a1", "c1"));
}

TEST(CandidateSelectionTest, CandidatesAreSharedOutAmongThePackingsThatServeAnN) {
  std::map<std::int64_t, SearchSpace> spaces;
  for (int i = 0; i < 20; ++i) spaces[4].configs.push_back(predicted(i % 4 == 0 ? "b" : "a", 1, 1 + 0.01 * i));
  const CandidateSelection selection = select_from(spaces, {{4, 1.0}}, packing_of, {.candidates = 6, .packings = 2});
  std::map<std::string, int> count;
  for (const auto& each : selection.configs.at(4)) ++count[each.config.family];
  EXPECT_EQ(count["a"], 3);
  EXPECT_EQ(count["b"], 3);
  EXPECT_EQ(selection.considered, 20);
  EXPECT_EQ(select_from(spaces, {{4, 1.0}}, packing_of, {.candidates = 2, .packings = 2}).configs.at(4).size(), 2U);
}

}  // namespace
}  // namespace sparsmith
