#include "tuner/candidate_selection.h"

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

TEST(CandidateSelectionTest, TheBestSumsComeFirst) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[1].entries = {entry("a", 1, 1), entry("a", 2, 2), entry("a", 3, 9)};
  spaces[8].entries = {entry("a", 2, 3), entry("a", 1, 5), entry("a", 3, 6)};
  EXPECT_THAT(names(select_from(spaces, {{1, 1.0}, {8, 1.0}}, packing_of, {.packings = 2})), ElementsAre("a2", "a1"));
  EXPECT_THAT(names(select_from(spaces, {{1, 9.0}, {8, 1.0}}, packing_of, {.packings = 2})), ElementsAre("a1", "a2"));
}

TEST(CandidateSelectionTest, AFamilyThatServesOneNCompetesThere) {
  std::map<std::int64_t, SearchSpace> spaces;
  spaces[1].entries = {entry("rows", 1, 2), entry("hopeless", 1, 50)};
  spaces[8].entries = {entry("panel", 7, 4), entry("panel", 6, 5), entry("rows", 1, 8), entry("rows", 2, 9)};
  const CandidateSelection selection = select_from(spaces, {{1, 1.0}, {8, 1.0}}, packing_of, {.packings = 1});
  EXPECT_THAT(names(selection), UnorderedElementsAre("rows1", "panel7"));
  ASSERT_EQ(selection.entries.at(8).size(), 2U);
  EXPECT_EQ(selection.entries.at(8)[0].config.family, "panel");
  EXPECT_EQ(selection.entries.at(8)[1].config.family, "rows");
  ASSERT_EQ(selection.entries.at(1).size(), 1U);
  EXPECT_EQ(selection.entries.at(1)[0].config.family, "rows");
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
  EXPECT_EQ(select_from(spaces, {{4, 1.0}}, packing_of, {.exhaustive = true}).entries.at(4).size(), 20U);
}

}  // namespace
}  // namespace sparsmith
