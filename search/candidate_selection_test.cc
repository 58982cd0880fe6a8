#include "search/candidate_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sparsmith {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Packings are named by the value of their one parameter.
SearchSpace::Entry entry(const std::string& family, std::int64_t packing, double predicted_us) {
  SearchSpace::Entry made;
  made.config = {family, {{"p", packing}}};
  made.predicted_us = predicted_us;
  return made;
}

std::string packing_of(const Config& config) { return config.family + std::to_string(config.values.at("p")); }

std::vector<std::string> names(const CandidateSelection& selection) {
  std::vector<std::string> result;
  for (const auto& packing : selection.packings) result.push_back(packing.name);
  return result;
}

std::vector<std::string> at(const CandidateSelection& selection, std::int64_t tokens) {
  std::vector<std::string> result;
  for (const SearchSpace::Entry& entry : selection.entries.at(tokens)) result.push_back(packing_of(entry.config));
  return result;
}

TEST(CandidateSelectionTest, EachNAsksForItsBestAndTheBestSumCompetes) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[1].entries = {entry("a", 1, 1), entry("a", 2, 1.1), entry("a", 3, 9)};
  spaces[8].entries = {entry("a", 4, 3), entry("a", 2, 3.1), entry("a", 1, 6), entry("a", 3, 7)};
  const CandidateSelection selection = select_from(spaces, {{1, 1.0}, {8, 1.0}}, packing_of, {.packings = 1});
  EXPECT_THAT(names(selection), ElementsAre("a2", "a1", "a4"));
  EXPECT_THAT(at(selection, 1), ElementsAre("a1", "a2"));
  EXPECT_THAT(at(selection, 8), ElementsAre("a4", "a2"));  // a1 is no promising one
}

TEST(CandidateSelectionTest, WhatIsNotPromisingHidesNothingBehindIt) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[1].entries = {entry("a", 1, 1)};
  spaces[8].entries = {entry("a", 2, 4), entry("a", 1, 6), entry("b", 1, 7)};
  const CandidateSelection selection =
      select_from(spaces, {{1, 1.0}, {8, 1.0}}, packing_of, {.packings = 1, .family_doubt = 2});
  EXPECT_THAT(at(selection, 8), ElementsAre("a2", "b1"));  // a1, which N = 1 asks for, is far behind a2
}

TEST(CandidateSelectionTest, SumsAreWeightedByCalls) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[1].entries = {entry("a", 1, 1), entry("a", 2, 2)};
  spaces[8].entries = {entry("a", 2, 3), entry("a", 1, 5)};
  EXPECT_THAT(names(select_from(spaces, {{1, 1.0}, {8, 1.0}}, packing_of, {})), ElementsAre("a2", "a1"));
  EXPECT_THAT(names(select_from(spaces, {{1, 9.0}, {8, 1.0}}, packing_of, {})), ElementsAre("a1", "a2"));
}

TEST(CandidateSelectionTest, AFamilyInDoubtCompetes) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[8].entries = {entry("panel", 7, 4), entry("panel", 6, 5), entry("rows", 1, 8), entry("rows", 2, 9),
                       entry("hopeless", 1, 50)};
  EXPECT_THAT(at(select_from(spaces, {{8, 1.0}}, packing_of, {.packings = 1, .family_doubt = 2.5}), 8),
              ElementsAre("panel7", "rows1"));
  EXPECT_THAT(at(select_from(spaces, {{8, 1.0}}, packing_of, {.packings = 3, .family_doubt = 1}), 8),
              ElementsAre("panel7", "panel6", "rows1"));
}

TEST(CandidateSelectionTest, WhereDenseIsFarAheadTwoAreLookedAt) {
  std::map<std::int64_t, SearchSpace> spaces;
  for (int i = 0; i < 20; ++i) {
    spaces[1].entries.push_back(entry("a", i % 3, 1 + 0.1 * i));
    spaces[4096].entries.push_back(entry("b", i % 5, 1000 + i));
  }
  const auto with_dense = [&](double small_us, double large_us, double doubt) {
    return select_from(spaces, {{1, 1.0}, {4096, 1.0}}, packing_of, {.dense_doubt = doubt},
                       {{1, small_us}, {4096, large_us}});
  };
  EXPECT_THAT(at(with_dense(4, 300, 2.5), 4096), ElementsAre("b0", "b1"));
  EXPECT_THAT(names(with_dense(4, 300, 2.5)), testing::Not(testing::Contains("b2")));
  EXPECT_EQ(with_dense(4, 300, 2.5).entries.at(1).size(), 20U);
  EXPECT_EQ(with_dense(0.6, 300, 2.5).entries.at(1).size(), 6U);  // up to 1.5
  EXPECT_EQ(with_dense(4, 500, 2.5).entries.at(4096).size(), 20U);
  EXPECT_EQ(with_dense(4, 300, 0).entries.at(4096).size(), 20U);
  EXPECT_EQ(with_dense(4, 0, 2.5).entries.at(4096).size(), 20U);  // not known
}

// "a" is best at N = 1 and "b" at N = 64; "c", far behind both, is the one that is no slower than dense at either.
TEST(CandidateSelectionTest, WhatMightServeEveryNAloneCompetes) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[1].entries = {entry("a", 1, 2), entry("c", 1, 8), entry("b", 1, 30)};
  spaces[64].entries = {entry("b", 1, 10), entry("c", 1, 19), entry("a", 1, 90)};
  const auto selected = [&](double dense_us) {
    return select_from(spaces, {{1, 1.0}, {64, 1.0}}, packing_of, {.packings = 1, .family_doubt = 1, .dense_doubt = 0},
                       {{1, 9}, {64, dense_us}});
  };
  EXPECT_THAT(at(selected(18), 1), ElementsAre("a1", "c1"));
  EXPECT_THAT(at(selected(18), 64), ElementsAre("b1", "c1"));
  EXPECT_THAT(at(selected(17), 1), ElementsAre("a1"));
}

TEST(CandidateSelectionTest, CandidatesAreSharedOutAmongThePackingsThatServeAnN) {
  std::map<std::int64_t, SearchSpace> spaces;
  for (int i = 0; i < 20; ++i) spaces[4].entries.push_back(entry(i % 4 == 0 ? "b" : "a", 1, 1 + 0.01 * i));
  const CandidateSelection selection = select_from(spaces, {{4, 1.0}}, packing_of, {.candidates = 6, .packings = 2});
  std::map<std::string, int> count;
  for (const auto& each : selection.entries.at(4)) ++count[each.config.family];
  EXPECT_EQ(count["a"], 3);
  EXPECT_EQ(count["b"], 3);
  EXPECT_EQ(selection.considered, 20);
  EXPECT_EQ(select_from(spaces, {{4, 1.0}}, packing_of, {.candidates = 2, .packings = 2}).entries.at(4).size(), 2U);
}

}  // namespace
}  // namespace sparsmith
