#include "search/ablation_timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "cache/cache.h"
#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class AblationTimingTest : public TuneTest {
 protected:
  void SetUp() override {
    TuneTest::SetUp();
    options_.tokens = {8};
    options_.type = DataType::kFloat16;
    options_.selection.families = {"bitmap"};
    device_.time_us = [](const CompiledCandidate& candidate) {
      const std::string& name = candidate.kernels.front().name;
      return name.ends_with("_copy_only")     ? 2
             : name.ends_with("_no_multiply") ? 4
             : name.ends_with("_no_decode")   ? 3
                                              : 6;
    };
  }

  Status ablate(TuneReport& report) {
    auto cache = Cache::open(directory_.file(cache_), Cache::Mode::kReadWrite);
    EXPECT_TRUE(cache.ok()) << cache.status().to_string();
    const auto compiler = scripted_compiler(compiles_);
    TuneResources resources;
    resources.workers = {scripted_workers(device_)};
    resources.compiler = compiler.get();
    resources.cache = &*cache;
    resources.interrupted = interrupted_;
    return time_ablations(weights_, options_, resources, report);
  }

  std::vector<WeightInput> weights_ = {{"w", [] { return sample_weight(64, 1024, 0.4, 1); }}};
};

TEST_F(AblationTimingTest, TheChosenKernelIsTimedBesideBuildsWithoutAPart) {
  TuneReport report = run(weights_);
  ASSERT_FALSE(report.weights.at(0).buckets.at(0).is_baseline());
  ASSERT_EQ(report.weights[0].buckets[0].candidate.config.family, "bitmap");
  const int verified = device_.verified;
  const Status status = ablate(report);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const BucketChoice& bucket = report.weights[0].buckets[0];
  ASSERT_TRUE(bucket.ablation.has_value());
  EXPECT_EQ(bucket.ablation->reason, "");
  EXPECT_EQ(bucket.ablation->whole.median_us, 6);
  ASSERT_EQ(bucket.ablation->without.size(), 3U);
  EXPECT_EQ(bucket.ablation->without.at(Ablation::kNoDecode).median_us, 3);
  EXPECT_EQ(bucket.ablation->without.at(Ablation::kNoMultiply).median_us, 4);
  EXPECT_EQ(bucket.ablation->without.at(Ablation::kCopyOnly).median_us, 2);
  const std::string& name = bucket.candidate.kernels.at(0).name;
  EXPECT_THAT(device_.timed_unverified,
              ElementsAre(name, name + "_no_decode", name + "_no_multiply", name + "_copy_only"));
  EXPECT_EQ(device_.verified, verified) << "nobody checks what is known to be wrong";
}

// Neither is what they take remembered, nor their kernels.
TEST_F(AblationTimingTest, NothingOfItIsKept) {
  TuneReport report = run(weights_);
  ASSERT_TRUE(ablate(report).ok());
  EXPECT_EQ(report.weights[0].buckets[0].us(), 6);
  for (const KernelImages& image : report.images) EXPECT_THAT(image.kernel.name, Not(EndsWith("_only")));
  const std::string& name = report.weights[0].buckets[0].candidate.kernels.at(0).name;
  bool chosen = false;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    const auto text = read_file(entry.path().string());
    ASSERT_TRUE(text.ok()) << text.status().to_string();
    chosen = chosen || text->find(name) != std::string::npos;
    for (const Ablation part : kAblations)
      EXPECT_THAT(*text, Not(HasSubstr(name + "_" + std::string(ablation_key(part)))));
  }
  EXPECT_TRUE(chosen) << "the cache is not where it was looked for";
}

TEST_F(AblationTimingTest, WhatIsNotTimedSaysWhy) {
  TuneReport report = run(weights_);
  compiles_.fails = [](const std::string& name) { return name.ends_with("_no_decode"); };
  ASSERT_TRUE(ablate(report).ok());
  const AblationTimes& times = *report.weights[0].buckets[0].ablation;
  EXPECT_EQ(times.without.count(Ablation::kNoDecode), 0U);
  EXPECT_THAT(times.missing.at(Ablation::kNoDecode), HasSubstr("drawn not to compile"));
  EXPECT_EQ(times.without.size(), 2U);

  compiles_.fails = [](const std::string&) { return true; };
  ASSERT_TRUE(ablate(report).ok());
  EXPECT_THAT(report.weights[0].buckets[0].ablation->reason, HasSubstr("drawn not to compile"));
}

TEST_F(AblationTimingTest, ABuildThatTakesItsWorkerDownHarmsNobody) {
  TuneReport report = run(weights_);
  device_.fault = [](const CompiledCandidate& candidate) {
    return candidate.kernels.front().name.ends_with("_copy_only") ? DeviceScript::Fault::kDiesWhenTimed
                                                                  : DeviceScript::Fault::kNone;
  };
  ASSERT_TRUE(ablate(report).ok());
  EXPECT_THAT(report.weights[0].buckets[0].ablation->reason, HasSubstr("signal 9"));
  EXPECT_THAT(report.weights[0].buckets[0].ablation->without, IsEmpty());
}

TEST_F(AblationTimingTest, OnlyGeneratedChoicesAreTaken) {
  device_.dense_us = 1;
  TuneReport report = run(weights_);
  ASSERT_TRUE(report.weights.at(0).buckets.at(0).is_baseline());
  ASSERT_TRUE(ablate(report).ok());
  EXPECT_FALSE(report.weights[0].buckets[0].ablation.has_value());
}

TEST_F(AblationTimingTest, ASparseChoiceIsTakenThoughDenseStaysAtAnotherN) {
  options_.tokens = {8, 64};
  device_.dense_us = 50;
  device_.time_us = [this](const CompiledCandidate&) { return device_.tokens == 8 ? 6.0 : 100.0; };
  TuneReport report = run(weights_);
  ASSERT_EQ(report.weights.at(0).buckets.size(), 2U);
  ASSERT_FALSE(report.weights[0].buckets[0].is_baseline());
  ASSERT_TRUE(report.weights[0].buckets[1].is_baseline());
  ASSERT_TRUE(ablate(report).ok());
  EXPECT_TRUE(report.weights[0].buckets[0].ablation.has_value());
  EXPECT_FALSE(report.weights[0].buckets[1].ablation.has_value());
}

TEST_F(AblationTimingTest, AnEmulatorTimesNothing) {
  device_.properties.is_emulator = true;
  weights_ = {weight("w", 2048, 2048, 1)};  // dense is not predicted to be faster
  TuneReport report = run(weights_);
  ASSERT_FALSE(report.weights.at(0).buckets.at(0).is_baseline());
  ASSERT_TRUE(ablate(report).ok());
  EXPECT_THAT(report.weights[0].buckets[0].ablation->reason, HasSubstr("takes a GPU"));
}

}  // namespace
}  // namespace sparsmith
