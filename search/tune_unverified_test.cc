// Runs without any device: choices are predicted and not verified, and no later run takes them for verified.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "search/record/tuned_output.h"
#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

class UnverifiedTuneTest : public TuneTest {
 protected:
  Result<TuneReport> run_without_devices(const std::vector<WeightInput>& weights, bool with_compiler = true) {
    auto cache = Cache::open(directory_.file(cache_), Cache::Mode::kReadWrite);
    EXPECT_TRUE(cache.ok()) << cache.status().to_string();
    const auto compiler = scripted_compiler(compiles_);
    TuneResources resources;
    if (with_compiler) resources.compiler = compiler.get();
    resources.cache = &*cache;
    auto report = tune(weights, options_, resources);
    const auto choices = cache->choices();
    EXPECT_TRUE(choices.ok());
    if (choices.ok()) cached_choices_ = choices->size();
    const auto counts = cache->counts();
    EXPECT_TRUE(counts.ok());
    if (counts.ok()) cached_measurements_ = counts->measurements;
    return report;
  }

  std::size_t cached_choices_ = 0;        // after the last run without devices
  std::int64_t cached_measurements_ = 0;  // the same
};

bool all_verified(const TuneReport& report, bool verified) {
  return std::ranges::all_of(report.weights, [&](const WeightResult& weight) {
    return std::ranges::all_of(weight.buckets,
                               [&](const BucketChoice& bucket) { return bucket.verification.ok == verified; });
  });
}

TEST_F(UnverifiedTuneTest, ChoicesArePredictedAndSaidToBeUnverified) {
  options_.tokens = {1, 8};
  const auto report = run_without_devices({weight("a", 512, 1024, 1), weight("b", 96, 640, 2)});
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  ASSERT_EQ(report->weights.size(), 2U);
  EXPECT_FALSE(report->measured);
  EXPECT_TRUE(report->complete);
  EXPECT_EQ(report->pairs, 4);
  EXPECT_EQ(report->unverified, 4);
  EXPECT_EQ(report->devices, 0U);
  EXPECT_EQ(report->device.device_class(), typical_device(90).device_class());
  EXPECT_TRUE(all_verified(*report, false));
  for (const WeightResult& weight : report->weights) {
    for (const BucketChoice& bucket : weight.buckets) {
      EXPECT_EQ(bucket.evidence, "predicted");
      EXPECT_EQ(bucket.us(), bucket.candidate.predicted_us);
      EXPECT_GT(bucket.us(), 0);
      EXPECT_NE(weight.packing_of(bucket), nullptr);
    }
  }
  for (const KernelImages& image : report->images) EXPECT_FALSE(image.binaries.empty()) << image.kernel.name;
  const TunedContents contents = tuned_contents(*report, {});
  EXPECT_TRUE(contents.validate().ok()) << contents.validate().to_string();
  for (const TunedWeight& weight : contents.weights) {
    for (const TunedOperator& op : weight.operators)
      for (const TunedChoice& choice : op.choices) EXPECT_EQ(choice.evidence, TunedChoice::Evidence::kPredicted);
  }
}

TEST_F(UnverifiedTuneTest, TheChoiceIsTheOneThatAnEmulatorWouldVerify) {
  const std::vector<WeightInput> weights = {weight("w", 512, 1024, 1)};
  const auto unverified = run_without_devices(weights);
  ASSERT_TRUE(unverified.ok()) << unverified.status().to_string();
  device_.properties.is_emulator = true;
  const TuneReport verified = run(weights);
  EXPECT_EQ(verified.cached, 0) << "nothing was remembered";
  EXPECT_GT(device_.verified, 0);
  EXPECT_EQ(verified.unverified, 0);
  EXPECT_TRUE(all_verified(verified, true));
  EXPECT_EQ(verified.weights.at(0).buckets.at(0).candidate.config.text(),
            unverified->weights.at(0).buckets.at(0).candidate.config.text());
}

TEST_F(UnverifiedTuneTest, TheCacheGetsNoChoiceAndNoMeasurement) {
  const auto report = run_without_devices({weight("w", 512, 1024, 1)});
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(cached_choices_, 0U);
  EXPECT_EQ(cached_measurements_, 0);
  const TuneReport measured = run({weight("w", 512, 1024, 1)});
  EXPECT_EQ(measured.cached, 0);
  EXPECT_EQ(measured.weights.at(0).buckets.at(0).evidence, "measured");
}

TEST_F(UnverifiedTuneTest, VerifiedChoicesOfTheCacheAreTakenAndStay) {
  device_.properties.is_emulator = true;
  run({weight("w", 512, 1024, 1)});
  const auto again = run_without_devices({weight("w", 512, 1024, 1)});
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->cached, 1);
  EXPECT_EQ(again->unverified, 0);
  EXPECT_TRUE(all_verified(*again, true));

  options_.tokens = {1, 8};  // of another goal: predicted anew
  const auto more = run_without_devices({weight("w", 512, 1024, 1)});
  ASSERT_TRUE(more.ok()) << more.status().to_string();
  EXPECT_EQ(more->unverified, 2);
  EXPECT_EQ(cached_choices_, 1U);
  options_.tokens = {1};
  EXPECT_EQ(run({weight("w", 512, 1024, 1)}).cached, 1) << "the verified choice is still there";
}

TEST_F(UnverifiedTuneTest, KernelsThatDoNotCompileAreNotChosen) {
  const std::vector<WeightInput> weights = {weight("w", 512, 1024, 1)};
  const auto first = run_without_devices(weights);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  const Candidate& chosen = first->weights.at(0).buckets.at(0).candidate;
  ASSERT_FALSE(chosen.kernels.empty());
  cache_ = "another.db";
  compiles_.fails = [name = chosen.kernels.front().name](const std::string& kernel) { return kernel == name; };
  const auto second = run_without_devices(weights);
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  EXPECT_NE(second->weights.at(0).buckets.at(0).candidate.config.text(), chosen.config.text());
  EXPECT_THAT(second->rejected, testing::Not(testing::IsEmpty()));
}

TEST_F(UnverifiedTuneTest, NoCompilerAndABoundOfBytesAreFineToo) {
  options_.tokens = {1, 8};
  options_.model_bytes = 64 << 20;
  const auto report = run_without_devices({weight("a", 512, 1024, 1), weight("b", 96, 640, 2)}, false);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->unverified, 4);
  EXPECT_EQ(report->memory.unmet, "");
  for (const KernelImages& image : report->images) EXPECT_TRUE(image.binaries.empty()) << image.kernel.name;
}

}  // namespace
}  // namespace sparsmith
