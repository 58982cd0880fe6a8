// Faults of the machine: what a run does when compilers or workers fail over a known-good kernel too, and when other
// libraries break the device or hang.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

// What a run chose, without what it took.
std::vector<std::string> choices_of(const TuneReport& report) {
  std::vector<std::string> choices;
  for (const WeightResult& weight : report.weights) {
    for (const BucketChoice& bucket : weight.buckets)
      choices.push_back(weight.name + " " + bucket.candidate.config.text());
  }
  return choices;
}

class MachineFaultTest : public TuneTest {
 protected:
  void SetUp() override {
    TuneTest::SetUp();
    options_.tokens = {1, 8};
    cache_ = "clean.db";
    clean_ = choices_of(run(weights_));
    ASSERT_EQ(clean_.size(), 4U);
    cache_ = "cache.db";
  }

  // The run ends with an error that has these words, and leaves no choice behind: the next run, on a sound machine,
  // chooses as if nothing had been.
  void expect_error_and_nothing_kept(const std::string& words) {
    const auto report = try_run(weights_);
    ASSERT_FALSE(report.ok());
    EXPECT_NE(report.status().message().find(words), std::string::npos) << report.status().to_string();
    EXPECT_EQ(choices_kept(), 0);
    device_.machine_fault = {};
    device_.known_good = {};
    compiles_ = {};
    const TuneReport next = run(weights_);
    EXPECT_TRUE(next.complete);
    EXPECT_EQ(next.cached, 0);
    EXPECT_EQ(choices_of(next), clean_);
  }

  std::int64_t choices_kept() {
    auto cache = Cache::open(directory_.file(cache_), Cache::Mode::kReadOnly);
    return cache.ok() ? cache->counts()->choices : -1;
  }

  const std::vector<WeightInput> weights_ = {weight("a", 64, 96, 1), weight("b", 96, 64, 2)};
  std::vector<std::string> clean_;
};

TEST_F(MachineFaultTest, ACompilerThatIsAlwaysKilledEndsTheRun) {
  compiles_.error = [](const std::string& name) { return io_error("compiling " + name + ": the compiler was killed"); };
  compiles_.known_good = [] { return io_error("compiling the known-good kernel: the compiler was killed"); };
  expect_error_and_nothing_kept("the compiler was killed");
}

// As when NVRTC misses its builtins: it answers, and says of each kernel that it does not compile.
TEST_F(MachineFaultTest, ACompilerThatFailsTheKnownGoodKernelEndsTheRun) {
  compiles_.fails = [](const std::string&) { return true; };
  compiles_.known_good = [] { return invalid_input("failed to open libnvrtc-builtins"); };
  expect_error_and_nothing_kept("failed to open libnvrtc-builtins");
}

TEST_F(MachineFaultTest, ARunInWhichNoKernelCompilesIsAnError) {
  compiles_.fails = [](const std::string&) { return true; };
  expect_error_and_nothing_kept("no kernel compiles: drawn not to compile");
}

TEST_F(MachineFaultTest, AWorkerThatFailsTheKnownGoodKernelEndsTheRun) {
  device_.machine_fault = [](const CompiledCandidate&) { return device_error("the worker died of signal 7"); };
  device_.known_good = [] { return io_error("kernel.cc: cannot be written"); };
  expect_error_and_nothing_kept("kernel.cc: cannot be written");
}

// As with CXX=/bin/false in the emulator, where choices are predicted.
TEST_F(MachineFaultTest, AnEmulatorThatCompilesNothingEndsTheRun) {
  device_.properties.is_emulator = true;
  cache_ = "predicted.db";
  clean_ = choices_of(run(weights_));
  cache_ = "cache.db";
  device_.machine_fault = [](const CompiledCandidate&) { return invalid_input("does not compile for the emulator"); };
  device_.known_good = [] { return invalid_input("known_good does not compile for the emulator"); };
  expect_error_and_nothing_kept("known_good does not compile for the emulator");
}

TEST_F(MachineFaultTest, OneFaultThatPassesChangesNoChoice) {
  int verified = 0;
  for (const int hit : {1, 3, 7}) {
    cache_ = std::to_string(hit) + ".db";
    verified = 0;
    device_.machine_fault = [&](const CompiledCandidate&) {
      return ++verified == hit ? io_error("the worker was killed") : Status();
    };
    const TuneReport report = run(weights_);
    EXPECT_GE(verified, hit);
    EXPECT_TRUE(report.complete);
    EXPECT_EQ(choices_of(report), clean_) << hit;
    EXPECT_EQ(report.worker_restarts, 1);
    EXPECT_EQ(report.unjudged, 0);
  }
}

// The machine does what is known to be good, and yet a candidate's worker is killed each time: nothing is known of it.
TEST_F(MachineFaultTest, WhatIsNotJudgedLeavesTheChoiceOpen) {
  std::string hit;
  device_.machine_fault = [&](const CompiledCandidate& candidate) {
    if (hit.empty()) hit = candidate.kernels.front().name;
    return candidate.kernels.front().name == hit ? io_error("the worker was killed") : Status();
  };
  const TuneReport report = run(weights_);
  EXPECT_FALSE(report.complete);
  EXPECT_GT(report.unjudged, 0);
  for (int i = 0; i < 3; ++i) {
    const TuneReport again = run(weights_);
    EXPECT_FALSE(again.complete);
  }
  device_.machine_fault = {};
  const TuneReport next = run(weights_);
  EXPECT_TRUE(next.complete || next.unjudged > 0) << "after four kills it may be left alone";
  options_.use_choices = false;
  cache_ = "fresh.db";
  EXPECT_EQ(choices_of(run(weights_)), clean_);
}

TEST_F(MachineFaultTest, WhatDoesNotFitTheMemoryIsAnErrorWithItsBytes) {
  options_.tokens = {2'000'000'000};
  const int before = device_.weights_set;
  const TuneReport report = run({weight("huge", 64, 96, 1)});
  ASSERT_EQ(report.skipped.size(), 1U);
  EXPECT_NE(report.skipped[0].reason.find("GB"), std::string::npos) << report.skipped[0].reason;
  EXPECT_EQ(device_.weights_set, before) << "no worker was bothered";
  options_.tokens = {std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(try_run(weights_).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(TuneTest, AlgorithmsThatBreakTheContextAreLeftOutOfEveryN) {
  options_.tokens = {8, 16};
  options_.vendors = {"cusparse", "cusparselt"};
  options_.use_choices = false;
  run({weight("w", 64, 96, 1)});
  const int starts = std::exchange(device_.starts, 0);
  device_.vendors_timed = 0;
  device_.breaking = {"algorithm 3", "algorithm 5"};
  const TuneReport report = run({weight("w", 64, 96, 1)});
  EXPECT_EQ(device_.starts, starts + 2);
  EXPECT_EQ(device_.vendors_timed, 6 + 2) << "with its worker went what cusparse took";
  EXPECT_THAT(device_.vendor_without, testing::ElementsAre("algorithm 3", "algorithm 5"))
      << "at another N another algorithm may be the fastest";
  for (const BucketChoice& bucket : report.weights[0].buckets) {
    for (const char* name : {"cusparse", "cusparselt"}) {
      const auto vendor = std::ranges::find(bucket.vendors, name, &VendorTiming::name);
      ASSERT_NE(vendor, bucket.vendors.end());
      EXPECT_TRUE(vendor->supported) << vendor->detail;
    }
    EXPECT_GT(bucket.us(), 0);
  }
}

TEST_F(TuneTest, ALibraryThatHangsIsAskedOnce) {
  options_.tokens = {8, 16, 32};
  options_.vendors = {"cusparselt"};
  options_.use_choices = false;
  device_.hanging = "cusparselt";
  const TuneReport report = run({weight("w", 64, 96, 1)});
  EXPECT_EQ(device_.vendors_timed, 1);
  for (const BucketChoice& bucket : report.weights[0].buckets) {
    EXPECT_FALSE(bucket.vendors.at(1).supported);
    EXPECT_NE(bucket.vendors[1].detail.find("stopped answering"), std::string::npos) << bucket.vendors[1].detail;
    EXPECT_GT(bucket.us(), 0);
  }
}

TEST_F(TuneTest, ALibraryThatBreaksTheContextAgainAndAgainIsGivenUp) {
  options_.tokens = {8};
  options_.vendors = {"cusparselt"};
  for (int i = 0; i < 40; ++i) device_.breaking.push_back(std::to_string(i));
  const TuneReport report = run({weight("w", 64, 96, 1)});
  EXPECT_EQ(device_.vendors_timed, 32);
  EXPECT_FALSE(report.weights[0].buckets[0].vendors.at(1).supported);
  EXPECT_EQ(report.weights[0].buckets[0].vendors[1].detail,
            "32 of its algorithms broke the GPU's context, the last 31");
  EXPECT_GT(report.weights[0].buckets[0].us(), 0);
}

}  // namespace
}  // namespace sparsmith
