#include "search/explain/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "generator/search_space.h"
#include "matrix/synthesis.h"
#include "tests/support/sample_weight.h"

namespace sparsmith {
namespace {

class ExplanationTest : public testing::Test {
 protected:
  void SetUp() override {
    const CsrMatrix matrix = sample_weight(256, 512, 0.1, 1);
    statistics_ = compute_statistics(matrix);
    problem_ = {sample_spec(matrix, DataType::kFloat16, Layout::kTokenMajor), 8, typical_device(90)};
    for (const auto& each : families()) {
      const SearchSpace space = search_space(*each, problem_, statistics_);
      for (std::size_t i = 0; i < std::min<std::size_t>(3, space.configs.size()); ++i)
        add(space.configs[i].config.text(), MeasurementStatus::kOk, 10 + static_cast<double>(measurements_.size()));
    }
    choice_ = {measurements_.front().config, 10, 30, 100'000, 1};
  }

  void add(const std::string& config, MeasurementStatus status, double us, const std::string& reason = "") {
    MeasurementRecord& record = measurements_.emplace_back();
    record.config = config;
    record.status = status;
    record.median_us = us;
    record.reason = reason;
  }

  SparsityStatistics statistics_;
  Problem problem_;
  std::vector<MeasurementRecord> measurements_;
  ChoiceToExplain choice_;
};

TEST_F(ExplanationTest, FamiliesComeFastestFirstWithWhatTheyTried) {
  const Explanation explanation = explain(problem_, statistics_, choice_, measurements_);
  const auto serves = [&](const auto& each) { return each->serves(OperatorSpec()); };
  EXPECT_EQ(std::ssize(explanation.families), std::ranges::count_if(families(), serves));
  const std::string first = Config::parse(choice_.config)->family;
  EXPECT_EQ(explanation.families.front().name, first);
  EXPECT_EQ(explanation.families.front().best_us, 10);
  EXPECT_EQ(explanation.families.front().best_config, choice_.config);
  std::int64_t tried = 0;
  for (const auto& each : explanation.families) tried += each.tried;
  EXPECT_EQ(tried, static_cast<std::int64_t>(measurements_.size()));
  EXPECT_EQ(explanation.runner_up_us, 11);
  EXPECT_FALSE(explanation.cuts.empty());
}

TEST_F(ExplanationTest, NamesTheStructureOfTheWeight) {
  EXPECT_EQ(explain(problem_, statistics_, choice_, measurements_).structure, "");
  SynthesisSpec spec;
  spec.rows = 64;
  spec.cols = 256;
  spec.sparsity = 0.5;
  spec.pattern = parse_synthesis_pattern("2:4").value();
  EXPECT_EQ(explain(problem_, compute_statistics(synthesize(spec).value()), choice_, measurements_).structure, "2:4");
}

TEST_F(ExplanationTest, TheLastMeasurementCountsAndFailuresHaveReasons) {
  add(choice_.config, MeasurementStatus::kWrong, 0, "y[0] = 1");
  add("vendor:cublas", MeasurementStatus::kOk, 1);
  add("no_such_family p=1", MeasurementStatus::kOk, 1);
  add(measurements_[1].config, MeasurementStatus::kFailed, 0, "it spills\nmuch");
  const Explanation explanation = explain(problem_, statistics_, choice_, measurements_);
  EXPECT_EQ(explanation.rejected.at("wrong result"), 1);
  EXPECT_EQ(explanation.rejected.at("it spills"), 1);
  EXPECT_GT(explanation.runner_up_us, 11) << "vendors and unknown families are no rivals";
}

TEST_F(ExplanationTest, BoundsAndTheFlipFollowFromTheTimes) {
  const Explanation explanation = explain(problem_, statistics_, choice_, measurements_);
  ASSERT_FALSE(explanation.bounds.empty());
  for (const auto& bound : explanation.bounds) EXPECT_LE(bound.us, 1.1 * choice_.us) << bound.name;
  EXPECT_EQ(explanation.bounds.front().name, "launch") << "a small weight";
  // (30 - 2) / (10 - 2) times as many nonzeros.
  EXPECT_NEAR(explanation.flips_at_density, (1 - statistics_.sparsity) * 3.5, 1e-9);
  choice_.launches = 2;
  EXPECT_NEAR(explain(problem_, statistics_, choice_, measurements_).flips_at_density,
              (1 - statistics_.sparsity) * (30.0 - 4) / (10 - 4), 1e-9);
  choice_.dense_us = 0;
  EXPECT_EQ(explain(problem_, statistics_, choice_, measurements_).flips_at_density, 0);
}

TEST_F(ExplanationTest, WithoutMeasurementsThePredictionsAreLeft) {
  const Explanation explanation = explain(problem_, statistics_, choice_, {});
  EXPECT_EQ(explanation.runner_up_us, 0);
  for (const auto& each : explanation.families) {
    EXPECT_EQ(each.tried, 0);
    EXPECT_EQ(each.configs > 0, each.predicted_us > 0) << each.name;
  }
}

}  // namespace
}  // namespace sparsmith
