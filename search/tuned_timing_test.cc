#include "search/tuned_timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search/record/tuned_output.h"
#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class TunedTimingTest : public TuneTest {
 protected:
  void SetUp() override {
    TuneTest::SetUp();
    options_.tokens = {1, 8};
    options_.type = DataType::kFloat16;
    device_.time_us = [](const CompiledCandidate&) { return 6.0; };
    report_ = run({weight("layers.0.w", 64, 1024, 1), weight("layers.1.w", 64, 1024, 2)});
    ASSERT_EQ(report_.weights.size(), 2U);
    ASSERT_FALSE(report_.weights[0].buckets[0].is_baseline());
    contents_ = tuned_contents(report_, {});
  }

  Result<TuneReport> time() {
    const auto compiler = scripted_compiler(compiles_);
    TuneResources resources;
    resources.workers = {scripted_workers(device_)};
    resources.compiler = compiler.get();
    resources.interrupted = interrupted_;
    return time_tuned(contents_, which_, options_, resources);
  }

  TuneReport report_;  // contents_ points into it
  TunedContents contents_;
  TunedTimingOptions which_;
};

TEST_F(TunedTimingTest, EachChoiceIsTimedBesideTheFastestDenseProduct) {
  device_.time_us = [](const CompiledCandidate&) { return 4.0; };
  options_.vendors = {"cusparse"};
  const auto timed = time();
  ASSERT_TRUE(timed.ok()) << timed.status().to_string();
  EXPECT_TRUE(timed->measured);
  EXPECT_THAT(timed->skipped, IsEmpty());
  ASSERT_EQ(timed->weights.size(), 2U);
  for (std::size_t w = 0; w < 2; ++w) {
    const WeightResult& weight = timed->weights[w];
    EXPECT_EQ(weight.name, report_.weights[w].name);
    EXPECT_EQ(weight.gpu_bytes(), report_.weights[w].gpu_bytes());
    ASSERT_EQ(weight.buckets.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      const BucketChoice& bucket = weight.buckets[i];
      EXPECT_EQ(bucket.tokens, options_.tokens[i]);
      EXPECT_EQ(bucket.us(), 4) << "the time of now, not of the file";
      EXPECT_EQ(bucket.dense_us, device_.dense_us) << "of the fastest proposal";
      EXPECT_EQ(bucket.evidence, "measured");
      EXPECT_EQ(bucket.candidate.config.text(), report_.weights[w].buckets[i].candidate.config.text());
      ASSERT_EQ(bucket.vendors.size(), 2U);
      EXPECT_EQ(bucket.vendors[0].name, "dense");
      EXPECT_EQ(bucket.vendors[1].name, "cusparse");
      EXPECT_GT(bucket.vendors[1].timing.median_us, 0);
    }
  }
  EXPECT_EQ(timed->memory.bytes, report_.weights[0].gpu_bytes() + report_.weights[1].gpu_bytes());
}

TEST_F(TunedTimingTest, AGradientIsTimedBesideTheDenseProductWithoutItsGather) {
  options_.kinds = {OperatorKind::kSddmm};
  device_.time_us = [](const CompiledCandidate&) { return 100.0; };
  report_ = run({weight("w", 64, 1024, 1)});
  contents_ = tuned_contents(report_, {});
  const auto timed = time();
  ASSERT_TRUE(timed.ok()) << timed.status().to_string();
  ASSERT_EQ(timed->weights.size(), 1U);
  for (const BucketChoice& bucket : timed->weights[0].buckets) {
    EXPECT_TRUE(bucket.is_baseline());
    EXPECT_EQ(bucket.us(), device_.dense_us + 10);
    EXPECT_EQ(bucket.dense_us, device_.dense_us);
  }
}

TEST_F(TunedTimingTest, ALibraryThatBreaksTheContextLeavesTheChoiceTimed) {
  options_.vendors = {"cusparse", "cusparselt"};
  device_.breaking = {"algorithm 3"};
  const auto timed = time();
  ASSERT_TRUE(timed.ok()) << timed.status().to_string();
  EXPECT_THAT(timed->skipped, IsEmpty());
  for (const WeightResult& weight : timed->weights) {
    for (const BucketChoice& bucket : weight.buckets) {
      ASSERT_EQ(bucket.vendors.size(), 3U);
      for (const VendorTiming& vendor : bucket.vendors) EXPECT_TRUE(vendor.supported) << vendor.detail;
      EXPECT_GT(bucket.us(), 0);
    }
  }
}

TEST_F(TunedTimingTest, NamesAndTokensSelect) {
  which_.selection.include = {"*.1.*"};
  which_.tokens = {3, 100};
  const auto timed = time();
  ASSERT_TRUE(timed.ok()) << timed.status().to_string();
  ASSERT_EQ(timed->weights.size(), 1U);
  EXPECT_EQ(timed->weights[0].name, "layers.1.w");
  ASSERT_EQ(timed->weights[0].buckets.size(), 2U);
  EXPECT_EQ(timed->weights[0].buckets[0].tokens, 3);
  EXPECT_EQ(timed->weights[0].buckets[1].tokens, 100);
  which_.selection.include = {"nothing"};
  EXPECT_EQ(time().status().code(), StatusCode::kNotFound);
}

TEST_F(TunedTimingTest, AWrongOrMissingKernelFailsItsChoiceAlone) {
  const std::string wrong = report_.weights[0].buckets[0].candidate.kernels.at(0).name;
  device_.is_wrong = [&](const CompiledCandidate& candidate) {
    return !candidate.kernels.empty() && candidate.kernels[0].name == wrong;
  };
  which_.tokens = {1};
  which_.selection.include = {"layers.0.w"};
  auto timed = time();
  ASSERT_TRUE(timed.ok()) << timed.status().to_string();
  EXPECT_THAT(timed->weights, IsEmpty());
  ASSERT_EQ(timed->skipped.size(), 1U);
  EXPECT_EQ(timed->skipped[0].name, "layers.0.w");
  EXPECT_THAT(timed->skipped[0].reason, HasSubstr("N = 1: wrong result"));

  device_.is_wrong = {};
  for (TunedKernel& kernel : contents_.kernels) kernel.binaries.clear();
  timed = time();
  ASSERT_TRUE(timed.ok()) << timed.status().to_string();
  ASSERT_EQ(timed->skipped.size(), 1U);
  EXPECT_THAT(timed->skipped[0].reason, HasSubstr("has no binary for sm_90"));
}

TEST_F(TunedTimingTest, AChoiceThatTakesItsWorkerDownHarmsNoOther) {
  const std::string deadly = report_.weights[0].buckets[0].candidate.kernels.at(0).name;
  device_.kills = [&](const CompiledCandidate& candidate) {
    return !candidate.kernels.empty() && candidate.kernels[0].name == deadly && device_.tokens == 1;
  };
  const auto timed = time();
  ASSERT_TRUE(timed.ok()) << timed.status().to_string();
  EXPECT_FALSE(timed->skipped.empty());
  EXPECT_FALSE(timed->weights.empty());
}

TEST_F(TunedTimingTest, StopsWhenInterrupted) {
  int asked = 0;
  interrupted_ = [&] { return ++asked > 1; };
  const auto timed = time();
  ASSERT_TRUE(timed.ok()) << timed.status().to_string();
  EXPECT_TRUE(timed->interrupted);
  EXPECT_FALSE(timed->complete);
  ASSERT_EQ(timed->weights.size(), 1U);
  EXPECT_EQ(timed->weights[0].buckets.size(), 1U);
}

}  // namespace
}  // namespace sparsmith
