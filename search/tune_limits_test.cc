// What a run may take: time, which goes where it gains most, and bytes, which are saved where that costs least.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "search/choice/budget.h"
#include "search/record/tuned_output.h"
#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

milliseconds left_for(const Budget& budget, std::size_t weight) {
  return duration_cast<milliseconds>(budget.end_of_search(weight) - Budget::Clock::now());
}

TEST(BudgetTest, TimeIsSharedOutByGain) {
  Budget budget(1000, 1, {1.0, 3.0, 6.0});
  EXPECT_THAT(budget.order(), testing::ElementsAre(2, 1, 0));
  EXPECT_NEAR(static_cast<double>(left_for(budget, 2).count()), 600e3, 5e3);
  EXPECT_NEAR(static_cast<double>(left_for(budget, 0).count()), 100e3, 5e3);
  budget.done(2);  // needed nothing: what it leaves is the others'
  EXPECT_NEAR(static_cast<double>(left_for(budget, 1).count()), 750e3, 5e3);
  budget.done(1);
  EXPECT_NEAR(static_cast<double>(left_for(budget, 0).count()), 1000e3, 5e3);
}

TEST(BudgetTest, SeveralDevicesHaveAsMuchEach) {
  const Budget budget(1000, 2, {1.0, 3.0, 6.0});
  EXPECT_NEAR(static_cast<double>(left_for(budget, 0).count()), 200e3, 5e3);
  EXPECT_NEAR(static_cast<double>(left_for(budget, 2).count()), 1000e3, 5e3) << "not longer than the run";
}

TEST(BudgetTest, WhatIsNotKnownCountsAsTheMean) {
  const Budget budget(1000, 1, {1.0, std::nullopt, 3.0});
  EXPECT_THAT(budget.order(), testing::ElementsAre(2, 1, 0));
  const Budget nothing(1000, 1, {std::nullopt, std::nullopt});
  EXPECT_NEAR(static_cast<double>(left_for(nothing, 0).count()), 500e3, 5e3);
  const Budget endless(0, 1, {1.0, 3.0});
  EXPECT_FALSE(endless.over());
  EXPECT_THAT(endless.order(), testing::ElementsAre(0, 1)) << "as in the model";
  EXPECT_EQ(endless.end_of_search(0), Budget::Clock::time_point::max());
}

class TunerLimitsTest : public TuneTest {
 protected:
  // Larger and larger ones, whose statistics are known before they are read.
  static std::vector<WeightInput> growing(int count) {
    std::vector<WeightInput> weights;
    for (int i = 0; i < count; ++i) {
      WeightInput& input = weights.emplace_back(weight("w" + std::to_string(i), 64 << i, 512, 1 + i));
      input.statistics = compute_statistics(*input.load());
    }
    return weights;
  }

  // Their numbers, those first whose search promises most.
  std::vector<std::size_t> by_promise(const std::vector<WeightInput>& weights, const DeviceProperties& device) const {
    std::vector<double> gains;
    for (const WeightInput& input : weights) {
      double& gain = gains.emplace_back(0);
      for (const std::int64_t tokens : options_.tokens) {
        const Problem problem{
            {input.statistics->rows, input.statistics->cols, input.statistics->data_type}, tokens, device};
        gain += promised_gain_us(problem, search_space(problem, *input.statistics));
      }
    }
    std::vector<std::size_t> order(weights.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return gains[i]; });
    return order;
  }
};

TEST_F(TunerLimitsTest, WhenTimeIsOverEveryWeightHasAChoiceAndThoseThatPromiseMostAreMeasured) {
  const std::vector<WeightInput> weights = growing(5);
  options_.tokens = {1, 8};
  options_.selection.candidates = 24;
  options_.budget_s = 0.02;  // over before the last is prepared
  std::vector<std::string> order;
  weight_is_done_ = [&](const WeightResult& result) { order.push_back(result.name); };
  verifying_takes(milliseconds(15));
  const TuneReport report = run(weights);
  ASSERT_EQ(report.weights.size(), 5U);
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.pairs, 10);
  EXPECT_THAT(order, testing::SizeIs(5));
  const std::vector<std::size_t> promise = by_promise(weights, report.device);
  EXPECT_THAT(order.front(), testing::AnyOf(weights[promise[0]].name, weights[promise[1]].name))
      << "two are prepared at once";
  EXPECT_EQ(report.weights[promise[0]].buckets[0].evidence, "measured");
  std::set<std::string> predicted;
  for (const WeightResult& each : report.weights) {
    for (const BucketChoice& bucket : each.buckets) {
      EXPECT_GT(bucket.us(), 0);
      if (bucket.evidence == "predicted") predicted.insert(each.name);
      EXPECT_TRUE(bucket.evidence == "measured" || !bucket.complete);
      EXPECT_TRUE(bucket.is_baseline() || bucket.verification.ok) << "not even verified";
    }
  }
  EXPECT_THAT(predicted, testing::Not(testing::IsEmpty()));
  EXPECT_TRUE(tuned_contents(report, {}).validate().ok()) << tuned_contents(report, {}).validate().to_string();
  for (const KernelImages& image : report.images) EXPECT_FALSE(image.binaries.empty()) << image.kernel.name;

  // With time enough the next run measures what was not.
  options_.budget_s = 0;
  const TuneReport next = run(weights);
  EXPECT_TRUE(next.complete);
  for (const WeightResult& each : next.weights) {
    for (const BucketChoice& bucket : each.buckets) EXPECT_EQ(bucket.evidence, "measured") << each.name;
  }
}

TEST_F(TunerLimitsTest, AWeightOfWhichNothingIsKnownHidesNotWhatOthersPromise) {
  std::vector<WeightInput> weights = growing(4);
  weights.front().statistics.reset();
  options_.tokens = {1};
  options_.selection.candidates = 2;
  options_.budget_s = 1000;
  std::mutex mutex;
  std::vector<std::string> order;  // in which they are read, two at once
  for (WeightInput& each : weights) {
    each.load = [&mutex, &order, name = each.name, load = each.load] {
      const std::lock_guard lock(mutex);
      order.push_back(name);
      return load();
    };
  }
  run(weights);
  ASSERT_EQ(order.size(), 4U);
  EXPECT_LT(std::ranges::find(order, weights[3].name), std::ranges::find(order, weights[1].name));
}

TEST_F(TunerLimitsTest, TheTimeOfAWeightIsSharedOutAmongItsNs) {
  options_.tokens = {1, 8};
  options_.selection.candidates = 40;
  options_.budget_s = 0.2;  // for less than the candidates of one N
  verifying_takes(milliseconds(10));
  std::map<std::int64_t, int> tried;  // by N
  device_.fault = [&](const CompiledCandidate&) {
    ++tried[device_.tokens];
    return DeviceScript::Fault::kNone;
  };
  EXPECT_FALSE(run({weight("w", 1024, 2048, 1)}).complete);
  EXPECT_GT(4 * tried[1], tried[8]);
  EXPECT_GT(4 * tried[8], tried[1]);
}

TEST_F(TunerLimitsTest, ALaterRunWithNoTimeTakesWhatWasMeasured) {
  verifying_takes(milliseconds(10));
  options_.selection.candidates = 40;
  options_.budget_s = 0.1;
  const std::vector<WeightInput> weights = growing(1);
  const TuneReport first = run(weights);
  ASSERT_FALSE(first.complete);
  ASSERT_TRUE(first.measured);
  options_.budget_s = 1e-9;
  const int timed = device_.timed;
  const TuneReport second = run(weights);
  EXPECT_EQ(second.weights.at(0).buckets.at(0).evidence, "measured");
  EXPECT_EQ(second.weights[0].buckets[0].us(), first.weights.at(0).buckets.at(0).us());
  EXPECT_FALSE(second.complete);
  EXPECT_EQ(device_.timed, timed);
}

// The smaller packings are the slower ones here, all of them faster than dense.
class MemoryTest : public TunerLimitsTest {
 protected:
  void SetUp() override {
    TunerLimitsTest::SetUp();
    options_.selection = {};
    options_.tokens = {1, 8};
    options_.transfer = false;
    options_.memory = kMostMemory;
    device_.dense_us = 1e5;
    device_.time_us = [this](const CompiledCandidate& c) {
      return 5 + 1e6 / static_cast<double>(device_.packed_bytes.at(c.packing));
    };
  }
  // A run that knows of no other: what an earlier one found would take this one further.
  TuneReport run_anew(const std::vector<WeightInput>& weights) {
    cache_ = std::to_string(++runs_) + ".db";
    return run(weights);
  }
  static std::int64_t bytes_of(const TuneReport& report) {
    std::int64_t bytes = 0;
    for (const WeightResult& each : report.weights) bytes += each.gpu_bytes();
    return bytes;
  }
  int runs_ = 0;
};

TEST_F(MemoryTest, WithRoomEnoughForTheModelNothingChanges) {
  const std::vector<WeightInput> weights = growing(4);
  const TuneReport fastest = run_anew(weights);
  options_.model_bytes = bytes_of(fastest);
  const TuneReport report = run_anew(weights);
  EXPECT_EQ(report.memory.unmet, "");
  EXPECT_EQ(report.memory.bytes, bytes_of(report));
  EXPECT_EQ(bytes_of(report), bytes_of(fastest));
  EXPECT_EQ(report.memory.us, fastest.memory.us);
  EXPECT_EQ(fastest.memory.faster.memory, 0) << "there is nothing faster";
}

TEST_F(MemoryTest, WeightsOfABoundedModelAreKeptSmallerAndSayWhy) {
  const std::vector<WeightInput> weights = growing(4);
  const TuneReport fastest = run_anew(weights);
  options_.model_bytes = 1;
  const TuneReport smallest = run_anew(weights);
  EXPECT_NE(smallest.memory.unmet.find(std::to_string(bytes_of(smallest)) + " bytes"), std::string::npos)
      << smallest.memory.unmet;
  ASSERT_LT(bytes_of(smallest), bytes_of(fastest));

  options_.model_bytes = (bytes_of(smallest) + bytes_of(fastest)) / 2;
  const TuneReport report = run_anew(weights);
  EXPECT_EQ(report.memory.unmet, "");
  EXPECT_LE(bytes_of(report), options_.model_bytes);
  EXPECT_EQ(report.memory.bytes, bytes_of(report)) << "what was packed again is what was promised";
  EXPECT_GT(report.memory.us, fastest.memory.us);
  EXPECT_LT(report.memory.us, smallest.memory.us);
  int changed = 0;
  for (const WeightResult& each : report.weights) {
    for (const BucketChoice& bucket : each.buckets) {
      if (bucket.reason.find("made smaller") == std::string::npos) continue;
      ++changed;
      EXPECT_NE(bucket.reason.find("without the bound"), std::string::npos) << bucket.reason;
      EXPECT_FALSE(bucket.trials.empty());
    }
  }
  EXPECT_GT(changed, 0);
  EXPECT_LT(changed, 8);
  EXPECT_TRUE(tuned_contents(report, {}).validate().ok()) << tuned_contents(report, {}).validate().to_string();
  for (const KernelImages& image : report.images) EXPECT_FALSE(image.binaries.empty()) << image.kernel.name;
}

TEST_F(MemoryTest, EachWeightKeepsWithinItsShareAndSaysWhatMoreWouldGain) {
  const std::vector<WeightInput> weights = growing(4);
  const TuneReport fastest = run_anew(weights);
  for (const double memory : {0.5, 0.3}) {
    options_.memory = memory;
    const TuneReport report = run_anew(weights);
    ASSERT_EQ(report.memory.unmet, "");
    for (const WeightResult& each : report.weights)
      EXPECT_LE(static_cast<double>(each.gpu_bytes()), memory * static_cast<double>(each.dense_bytes())) << each.name;
    if (report.memory.us < 1.02 * fastest.memory.us) continue;
    ASSERT_GT(report.memory.faster.memory, memory);
    EXPECT_LT(report.memory.faster.us, report.memory.us);
    options_.memory = report.memory.faster.memory;
    const TuneReport more = run_anew(weights);
    EXPECT_EQ(more.memory.bytes, report.memory.faster.bytes) << "what was promised";
    EXPECT_NEAR(more.memory.us, report.memory.faster.us, 1e-6 * more.memory.us);
  }
  options_.memory = 0.01;
  const TuneReport unmet = run_anew(weights);
  EXPECT_NE(unmet.memory.unmet.find("0.01x cannot be met"), std::string::npos) << unmet.memory.unmet;
  EXPECT_EQ(unmet.memory.unmet.find("dense"), std::string::npos) << "dense does not count here";
  EXPECT_EQ(run(weights).memory.unmet, unmet.memory.unmet) << "the cache makes it no better";
  options_.memory = std::stod(unmet.memory.unmet.substr(unmet.memory.unmet.rfind(" take ") + 6));
  EXPECT_EQ(run_anew(weights).memory.unmet, "") << "what it says that they take is enough";
}

// Dense is faster at N = 8 than everything, and a packing beside it would not fit.
TEST_F(MemoryTest, NoNIsSlowerThanDense) {
  options_.memory = 1;
  device_.dense_us = 50;
  device_.time_us = [this](const CompiledCandidate&) { return device_.tokens == 1 ? 10.0 : 60.0; };
  const TuneReport report = run_anew(growing(2));
  for (const WeightResult& each : report.weights) {
    EXPECT_EQ(each.gpu_bytes(), each.dense_bytes());
    EXPECT_TRUE(each.buckets[0].is_baseline());
    EXPECT_NE(each.buckets[0].reason.find("within the memory bound"), std::string::npos) << each.buckets[0].reason;
    EXPECT_NE(each.buckets[0].reason.find("(--memory)"), std::string::npos) << each.buckets[0].reason;
  }
  EXPECT_GT(report.memory.faster.memory, 1);
  options_.memory = report.memory.faster.memory;
  const TuneReport more = run_anew(growing(2));
  for (const WeightResult& each : more.weights) {
    EXPECT_FALSE(each.buckets[0].is_baseline());
    EXPECT_TRUE(each.buckets[1].is_baseline());
  }
}

// A choice stands for its goal alone.
TEST_F(MemoryTest, ChoicesOfTheCacheHaveTheSameGoal) {
  const std::vector<WeightInput> weights = growing(2);
  run_anew(weights);
  EXPECT_EQ(run(weights).cached, 4);
  options_.memory = 0.5;
  EXPECT_EQ(run(weights).cached, 0);
  EXPECT_EQ(run(weights).cached, 4);
  options_.tokens = {1};
  EXPECT_EQ(run(weights).cached, 0);
  options_.model_bytes = 1 << 30;
  EXPECT_EQ(run(weights).cached, 0);
}

}  // namespace
}  // namespace sparsmith
