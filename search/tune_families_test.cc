// What a run makes of choices that were made among other families.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

class TunerFamiliesTest : public TuneTest {
 protected:
  void SetUp() override {
    TuneTest::SetUp();
    options_.tokens = {1, 8};
    const auto of_family = [](const CompiledCandidate& candidate, const std::string& name) {
      return candidate.kernels.back().name.starts_with(name + "_");
    };
    device_.time_us = [this, of_family](const CompiledCandidate& candidate) {
      ++timed_;
      return of_family(candidate, fastest_) ? 3.0 : of_family(candidate, "rows") ? 5.0 : 7.0;
    };
  }

  BucketChoice search(const std::vector<std::string>& families) {
    options_.selection.families = families;
    timed_ = 0;
    report_ = run({weight("w", 64, 96, 1)});
    return report_.weights.at(0).buckets.at(1);
  }
  static std::string family_of(const BucketChoice& choice) { return choice.candidate.config.family; }
  // Of what was tried, at any N.
  std::vector<std::string> families_tried() const {
    std::vector<std::string> names;
    for (const BucketChoice& bucket : report_.weights.at(0).buckets) {
      for (const TrialSummary& trial : bucket.trials) names.push_back(trial.config.substr(0, trial.config.find(' ')));
    }
    return names;
  }

  std::string fastest_ = "slots";
  TuneReport report_;
  int timed_ = 0;
};

TEST_F(TunerFamiliesTest, AFamilyThatIsAddedIsAllThatIsSearched) {
  EXPECT_EQ(family_of(search({"rows"})), "rows");
  EXPECT_EQ(search({"rows"}).cached, true);

  EXPECT_EQ(family_of(search({"rows", "slots"})), "slots");
  EXPECT_EQ(report_.cached, 0);
  const std::vector<std::string> tried = families_tried();
  EXPECT_GT(std::ranges::count(tried, "slots"), 2);
  EXPECT_EQ(std::ranges::count(tried, "rows"), 2) << "the earlier choice at each N";
  for (const BucketChoice& bucket : report_.weights.at(0).buckets) EXPECT_EQ(bucket.incumbent, "exact");

  EXPECT_TRUE(search({"rows", "slots"}).cached);
  EXPECT_EQ(timed_, 0);
  search({});
  EXPECT_EQ(report_.cached, 0) << "there are more families";
  EXPECT_EQ(std::ranges::count(families_tried(), "rows"), 0);
  EXPECT_TRUE(search({}).cached);
}

TEST_F(TunerFamiliesTest, AnEarlierChoiceStaysWhereNothingNewIsFaster) {
  const std::string earlier = search({"rows"}).candidate.config.text();
  fastest_ = "rows";
  EXPECT_EQ(search({"rows", "slots"}).candidate.config.text(), earlier);
  EXPECT_GT(std::ranges::count(families_tried(), "slots"), 0);
  EXPECT_TRUE(search({"rows", "slots"}).cached);
}

TEST_F(TunerFamiliesTest, ARunAmongFewerFamiliesLeavesTheChoiceAmongMore) {
  EXPECT_EQ(family_of(search({})), "slots");
  EXPECT_EQ(family_of(search({"rows"})), "rows");
  EXPECT_EQ(report_.cached, 0) << "the cache's choice is of another family";
  EXPECT_EQ(std::ranges::count(families_tried(), "slots"), 0);
  EXPECT_EQ(family_of(search({})), "slots");
  EXPECT_EQ(report_.cached, 2);
  EXPECT_TRUE(search({"slots"}).cached) << "it is of that family, and was compared with more";
}

TEST_F(TunerFamiliesTest, DenseIsComparedWithWhatIsAdded) {
  fastest_ = "none";
  device_.dense_us = 4;
  EXPECT_TRUE(search({"rows"}).is_baseline());
  EXPECT_TRUE(search({"rows"}).cached);
  fastest_ = "slots";
  EXPECT_EQ(family_of(search({"rows", "slots"})), "slots");
  EXPECT_EQ(std::ranges::count(families_tried(), "rows"), 0);
}

// The scripted library takes 1 % longer with each further algorithm.
TEST_F(TunerFamiliesTest, AnAlgorithmThatIsSlowForDenseIsNotTriedForAnUnpackedWeight) {
  options_.tokens = {512};
  options_.type = DataType::kFloat16;
  options_.selection.families = {"unpack_bitmap"};
  options_.selection.candidates = 32;
  device_.dense_us = 100;
  const TuneReport report = run({weight("w", 512, 512, 1)});
  int timed = 0;
  int left_out = 0;
  for (const TrialSummary& trial : report.weights.at(0).buckets.at(0).trials) {
    if (!trial.config.starts_with("unpack_bitmap")) continue;
    const auto at = trial.config.find("proposal=");
    ASSERT_NE(at, std::string::npos) << trial.config;
    const bool slow = trial.config[at + 9] > '3';
    EXPECT_EQ(trial.outcome.starts_with("timed"), !slow) << trial.config << ": " << trial.outcome;
    if (slow) EXPECT_EQ(trial.outcome, "too slow") << trial.config;
    ++(slow ? left_out : timed);
  }
  EXPECT_GT(timed, 0);
  EXPECT_GT(left_out, 0);
}

TEST_F(TunerFamiliesTest, ChoicesMayBeKeptThoughThereAreMoreFamilies) {
  search({"rows"});
  options_.keep_choices = true;
  EXPECT_TRUE(search({}).cached);
  options_.keep_choices = false;
  EXPECT_EQ(family_of(search({})), "slots");
}

}  // namespace
}  // namespace sparsmith
