#include "search/choice/bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "generator/search_space.h"

namespace sparsmith {
namespace {

Trial timed(const std::string& packing, double us, bool in_final) {
  Trial trial;
  trial.identity.packing = packing;
  trial.state = Trial::State::kTimed;
  trial.timing.median_us = us;
  trial.in_final = in_final;
  return trial;
}

// Trials are shorter than the final, and by themselves: where a packing has times of the final, only those count.
TEST(TimesOfTest, TimesOfTheFinalComeFirst) {
  Bucket bucket;
  bucket.trials.push_back(timed("dense", 34, true));
  bucket.trials.back().baseline = true;
  bucket.trials.push_back(timed("a", 8.2, false));
  bucket.trials.push_back(timed("a", 9.1, true));
  bucket.trials.push_back(timed("a", 9.0, true));
  bucket.trials.push_back(timed("a", 8.1, false));
  bucket.trials.push_back(timed("b", 8.6, true));
  bucket.trials.push_back(timed("c", 8.8, false));
  bucket.trials.push_back(timed("c", 8.7, false));
  bucket.trials.push_back(timed("d", 1, true));
  bucket.trials.back().state = Trial::State::kRejected;
  const BucketTimes times = times_of(bucket, false);
  EXPECT_EQ(times.dense_us, 34);
  EXPECT_EQ(times.best_us, (std::map<std::string, double>{{"a", 9.0}, {"b", 8.6}, {"c", 8.7}, {"dense", 34}}));
}

TEST(CallsOfTest, WithoutCountsDenseTakesEquallyLongAtEachN) {
  OperatorSpec spec;
  spec.type = DataType::kFloat16;
  spec.set_weight(4096, 4096, 1000);
  TuneOptions options;
  options.tokens = {1, 8, 512, 4096};
  const DeviceProperties device = typical_device(90);
  const std::vector<double> calls = calls_of(options, spec, device);
  ASSERT_EQ(calls.size(), 4U);
  EXPECT_EQ(calls[0], 1);
  EXPECT_NEAR(calls[1], 1, 0.05) << "dense waits for the weight alone";
  EXPECT_LT(calls[3], 0.15);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const double us = baseline_us({spec, options.tokens[i], device});
    EXPECT_NEAR(calls[i] * us, baseline_us({spec, 1, device}), 1e-6) << options.tokens[i];
  }
  options.calls = {5, 1, 1, 3};
  EXPECT_EQ(calls_of(options, spec, device), options.calls);
}

TEST(CallsOfTest, TrainingCallsAllOperatorsEquallyOften) {
  TuneOptions options;
  options.tokens = {64, 4096, 32768};
  options.train = true;
  const DeviceProperties device = typical_device(90);
  std::vector<std::vector<double>> calls;
  for (const OperatorKind kind : kOperatorKinds) {
    OperatorSpec spec{.type = DataType::kFloat16, .kind = kind};
    spec.set_weight(4096, 14336, 1000);
    if (kind == OperatorKind::kSpmm) spec.epilogue = Epilogue::parse("bias+gelu").value();
    calls.push_back(calls_of(options, spec, device));
  }
  EXPECT_EQ(calls[0], calls[1]);
  EXPECT_EQ(calls[0], calls[2]);
  EXPECT_LT(calls[0][2], calls[0][1]);
}

// What a baseline gathers counts for the choice; a dense layer does not gather.
TEST(TimesOfTest, ADenseGradientIsReportedWithoutItsGather) {
  Bucket bucket;
  Trial& dense = bucket.trials.emplace_back(timed("csr", 34, true));
  dense.baseline = true;
  dense.candidate.plan.steps = {gradient_step(0)};
  dense.candidate.predicted_us = 30;
  dense.predicted_product_us = 20;
  EXPECT_EQ(times_of(bucket, false).dense_us, 34);
  const auto choice = [&](bool predicted) {
    const auto winner = choose_trial(bucket.trials, {"csr"}, true, predicted);
    EXPECT_THAT(winner->reason, testing::HasSubstr("dense with its gather"));
    return bucket_choice(bucket, *winner, predicted, "");
  };
  EXPECT_EQ(choice(false).dense_us, 0) << "the product alone was not timed";
  dense.product.emplace().median_us = 25;
  EXPECT_EQ(choice(false).dense_us, 25);
  EXPECT_EQ(choice(false).vendors.at(0).timing.median_us, 25);
  EXPECT_EQ(times_of(bucket, false).dense_us, 34);
  dense.state = Trial::State::kWaiting;
  dense.product.reset();
  EXPECT_EQ(choice(true).dense_us, 20);
  EXPECT_EQ(times_of(bucket, true).dense_us, 30);
}

}  // namespace
}  // namespace sparsmith
