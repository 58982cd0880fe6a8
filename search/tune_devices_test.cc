// Weights shared over several devices: each is done once, whatever becomes of a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "search/record/tuned_output.h"
#include "search/trial/device_sessions.h"
#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

class TunerDevicesTest : public TuneTest {
 protected:
  void SetUp() override {
    TuneTest::SetUp();
    more_devices_ = {&second_};
    options_.tokens = {1, 8};
    weight_is_done_ = [this](const WeightResult& weight) { ++done_[weight.name]; };
    // Slow enough that both are needed.
    const auto slow = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
    device_.before_verify = slow;
    second_.before_verify = slow;
  }

  // Of shapes that are not near each other.
  static std::vector<WeightInput> different(int count) {
    std::vector<WeightInput> weights;
    for (int i = 0; i < count; ++i)
      weights.push_back(weight("w" + std::to_string(i), 32 + 8 * i, 96, static_cast<unsigned>(i + 1)));
    return weights;
  }

  void expect_each_once(const TuneReport& report, std::size_t count) const {
    ASSERT_EQ(report.weights.size(), count);
    EXPECT_TRUE(report.complete);
    EXPECT_TRUE(report.skipped.empty());
    EXPECT_EQ(report.pairs, static_cast<std::int64_t>(2 * count));
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(report.weights[i].name, "w" + std::to_string(i)) << "not in the model's order";
      EXPECT_EQ(report.weights[i].buckets.size(), 2U);
      EXPECT_EQ(done_.at(report.weights[i].name), 1);
    }
  }

  DeviceScript second_;
  std::map<std::string, int> done_;
};

TEST_F(TunerDevicesTest, TheyShareTheWeightsAndEachIsDoneOnce) {
  options_.transfer = false;  // what a weight could learn hangs on who is done first
  const TuneReport report = run(different(12));
  expect_each_once(report, 12);
  EXPECT_EQ(report.devices, 2U);
  EXPECT_EQ(device_.weights_set + second_.weights_set, 12) << "one was done twice";
  EXPECT_GT(device_.weights_set, 0);
  EXPECT_GT(second_.weights_set, 0);
  EXPECT_TRUE(tuned_contents(report, {}).validate().ok());
  for (const auto& [name, count] : compiles_.compiled) EXPECT_EQ(count, 1) << name;

  // One device finds the same, and finds it in the cache.
  more_devices_.clear();
  const TuneReport again = run(different(12));
  EXPECT_EQ(again.cached, again.pairs);
  cache_ = "alone.db";
  const TuneReport alone = run(different(12));
  ASSERT_EQ(alone.weights.size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) {
    for (std::size_t n = 0; n < 2; ++n) {
      EXPECT_EQ(alone.weights[i].buckets[n].us(), report.weights[i].buckets[n].us());
      EXPECT_EQ(again.weights[i].buckets[n].us(), report.weights[i].buckets[n].us());
    }
  }
}

// One device, whose searches take turns.
class SharedDeviceTest : public TunerDevicesTest {
 protected:
  void SetUp() override {
    TunerDevicesTest::SetUp();
    ::setenv("TMPDIR", directory_.path().c_str(), 1);
    more_devices_.clear();
    device_.properties.pci_address = "0000:1b:00";
    compiles_.before = [](const std::string&) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
  }
  void TearDown() override { ::unsetenv("TMPDIR"); }
};

TEST_F(SharedDeviceTest, OneWeightIsTriedWhileAnotherWaitsForKernels) {
  std::vector<std::thread::id> searchers;  // of candidates, in the order of their turns
  std::atomic<int> inside = 0;
  device_.before_verify = [&] {
    EXPECT_EQ(++inside, 1) << "two at once on one device";
    searchers.push_back(std::this_thread::get_id());
    // On a busy machine the second weight's kernels come late: the first has candidates left for as long.
    const bool alone = std::ranges::count(searchers, searchers.front()) == std::ssize(searchers);
    std::this_thread::sleep_for(std::chrono::milliseconds(alone ? 50 : 0));
    --inside;
  };
  options_.transfer = false;
  const TuneReport together = run(different(2));
  expect_each_once(together, 2);
  EXPECT_EQ(together.devices, 1U);
  EXPECT_EQ(device_.starts, 2);
  EXPECT_EQ(device_.weights_set, 2);
  int changes = 0;
  for (std::size_t i = 1; i < searchers.size(); ++i) changes += searchers[i] != searchers[i - 1] ? 1 : 0;
  EXPECT_GE(changes, 2) << "one weight after the other";

  options_.searches_per_device = 1;
  cache_ = "alone.db";
  done_.clear();
  const TuneReport alone = run(different(2));
  expect_each_once(alone, 2);
  EXPECT_EQ(device_.starts, 3);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t n = 0; n < 2; ++n)
      EXPECT_EQ(alone.weights[i].buckets[n].us(), together.weights[i].buckets[n].us());
  }
}

TEST_F(SharedDeviceTest, WhatKillsAWorkerCostsTheOtherSearchNothing) {
  device_.kills = [](const CompiledCandidate& candidate) {
    return std::hash<std::string>()(candidate.kernels.front().name) % 5 == 0;
  };
  const TuneReport report = run(different(6));
  expect_each_once(report, 6);
  EXPECT_GT(device_.deaths.size(), 0U) << "nothing was killed";
  EXPECT_EQ(device_.starts, 2 + static_cast<int>(device_.deaths.size()));
  EXPECT_EQ(device_.weights_set, 6 + static_cast<int>(device_.deaths.size())) << "one was done twice";
}

TEST_F(SharedDeviceTest, ALostDeviceEndsBothSearches) {
  device_.kills = [this](const CompiledCandidate&) { return device_.gone = true; };
  EXPECT_EQ(try_run(different(6)).status().code(), StatusCode::kNoDevice);
  device_.gone = false;
  device_.kills = {};
  expect_each_once(run(different(6)), 6);
}

TEST_F(SharedDeviceTest, OneSearchAtATimeWhereTwoWouldNotDo) {
  const auto sessions = [this] {
    const auto opened = open_sessions({scripted_workers(device_)}, 2);
    EXPECT_TRUE(opened.ok());
    return opened.ok() ? opened->size() : 0;
  };
  EXPECT_EQ(sessions(), 2U);
  device_.properties.memory_bytes = std::int64_t{24} << 30;
  EXPECT_EQ(sessions(), 1U) << "too little memory";
  device_.properties.memory_bytes = std::int64_t{80} << 30;
  device_.properties.pci_address.clear();
  EXPECT_EQ(sessions(), 1U) << "nothing to take turns by";

  device_.properties.pci_address = "0000:1b:00";
  int lent = 0;
  const WorkerFactory exclusive = [&]() -> Result<std::unique_ptr<Worker>> {
    if (++lent > 1) return no_device("another process has the device");
    return scripted_workers(device_)();
  };
  const auto opened = open_sessions({exclusive}, 2);
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  EXPECT_EQ(opened->size(), 1U) << "it is not lent twice";
  EXPECT_EQ(lent, 2);
  EXPECT_EQ(open_sessions({}, 2).status().code(), StatusCode::kInvalidArgument);

  device_.starts = 0;
  options_.budget_s = 1000;
  run(different(3));
  EXPECT_EQ(device_.starts, 1) << "a budget is shared out by devices";
}

TEST_F(TunerDevicesTest, OneThatIsLostLeavesItsWeightToTheOther) {
  int left = 3;
  second_.kills = [this, &left](const CompiledCandidate&) {
    second_.gone = --left == 0;
    return second_.gone;
  };
  const TuneReport report = run(different(12));
  expect_each_once(report, 12);
  EXPECT_EQ(left, 0) << "it was never lost";
  EXPECT_EQ(device_.weights_set + second_.weights_set, 13) << "only the lost one's weight is begun anew";
}

TEST_F(TunerDevicesTest, WithoutAnyTheRunEnds) {
  for (DeviceScript* device : {&device_, &second_}) {
    device->kills = [device](const CompiledCandidate&) {
      device->gone = true;
      return true;
    };
  }
  const auto report = try_run(different(12));
  EXPECT_EQ(report.status().code(), StatusCode::kNoDevice);
  // What was lost is not thought to be the candidates' fault.
  for (DeviceScript* device : {&device_, &second_}) {
    device->gone = false;
    device->kills = {};
  }
  done_.clear();
  expect_each_once(run(different(12)), 12);
}

TEST_F(TunerDevicesTest, OnlyOneOfEachKindIsSearchedInFull) {
  options_.selection = {};
  std::vector<WeightInput> weights;
  for (int i = 0; i < 10; ++i)
    weights.push_back({"w" + std::to_string(i), [i] { return sample_weight(512, 256, 0.15, 10 + i); }});
  const TuneReport report = run(weights);
  expect_each_once(report, 10);
  EXPECT_EQ(report.transferred, 2 * 9);
  int full = 0;
  for (const DeviceScript* device : {&device_, &second_}) {
    for (const int verified : device->verified_each) full += verified >= 40 ? 1 : 0;
  }
  EXPECT_EQ(full, 1);
}

TEST_F(TunerDevicesTest, OnesOfDifferentClassesAreAnError) {
  second_.properties.sm_count = 114;
  const auto report = try_run(different(2));
  EXPECT_EQ(report.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(report.status().message().find("sm_90 132 SMs and sm_90 114 SMs"), std::string::npos)
      << report.status().message();
  EXPECT_EQ(device_.weights_set, 0);
}

TEST_F(TunerDevicesTest, AnInterruptEndsAll) {
  std::atomic<int> verified = 0;
  const auto count = [&] { ++verified; };
  device_.before_verify = count;
  second_.before_verify = count;
  interrupted_ = [&] { return verified >= 20; };
  const TuneReport report = run(different(12));
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(report.weights.size() + report.skipped.size(), 12U);
  EXPECT_GT(report.skipped.size(), 0U);
  interrupted_ = {};
  done_.clear();
  expect_each_once(run(different(12)), 12);
}

}  // namespace
}  // namespace sparsmith
