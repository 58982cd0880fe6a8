#include "search/choice/transfer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/hash.h"
#include "tests/support/tune_fixture.h"

namespace sparsmith {
namespace {

WeightProfile profile(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                      std::vector<std::int64_t> histogram = {0, 10}, std::vector<double> structure = {}) {
  return {rows, cols, nnz, std::move(histogram), std::move(structure)};
}

ProblemKey key_of(const std::string& pattern_hash, std::int64_t tokens) { return {pattern_hash, "", tokens, "", ""}; }

TEST(TransferDistanceTest, LikeWeightsAreNearAndOthersAreNot) {
  const WeightProfile a = profile(4096, 4096, 3'000'000);
  EXPECT_EQ(distance(a, a), 0);
  EXPECT_LE(distance(a, profile(4096, 4096, 3'050'000)), 1);
  EXPECT_GT(distance(a, profile(4096, 4096, 3'300'000)), 1) << "another density";
  EXPECT_LE(distance(a, profile(4096, 4096, 3'000'000, {0, 95, 5})), 1);
  EXPECT_GT(distance(a, profile(4096, 4096, 3'000'000, {0, 80, 20})), 1) << "other rows";
  EXPECT_GT(distance(a, profile(4096, 4000, 2'930'000)), 1) << "another shape, of the same density";
  EXPECT_TRUE(std::isinf(distance(a, profile(4096, 14336, 10'500'000))));
  EXPECT_FALSE(std::isnan(distance(profile(0, 0, 0, {}), profile(0, 0, 0, {}))));
}

// A weight that was pruned in blocks, and one of the same rows that was not.
TEST(TransferDistanceTest, WeightsOfAnotherStructureAreNotNear) {
  const auto with = [](std::vector<double> structure) {
    return profile(512, 512, 26'000, {0, 10}, std::move(structure));
  };
  const WeightProfile blocks = with({1, 1, 1, 1, 0.4, 0.9});
  EXPECT_EQ(distance(blocks, blocks), 0);
  EXPECT_LE(distance(blocks, with({1, 1, 1, 0.98, 0.42, 0.9})), 1);
  EXPECT_GT(distance(blocks, with({0.3, 0.1, 0.1, 0.1, 0.1, 0.99})), 1) << "no blocks";
  EXPECT_GT(distance(blocks, with({1, 1, 1, 1, 0.4, 0.6})), 1) << "other groups of four";
  EXPECT_GT(distance(blocks, with({})), 1) << "not known";
  EXPECT_FALSE(std::isnan(distance(with({0, 0}), with({0, 0}))));
}

TEST(TransferHintTest, OnlyTheFamiliesThatAreSearchedCount) {
  const auto config = [](const char* text) { return *Config::parse(text); };
  Transfer::Hint hint;
  hint.near = true;
  hint.configs = {{1, {config("rows a=1"), config("slots a=1")}}, {8, {config("slots a=2")}}};
  EXPECT_EQ(of_families(hint, {}).configs, hint.configs);
  const Transfer::Hint slots = of_families(hint, {"panel", "slots"});
  EXPECT_TRUE(slots.near);
  EXPECT_EQ(slots.configs.at(1), std::vector{config("slots a=1")});
  EXPECT_EQ(slots.configs.at(8), std::vector{config("slots a=2")});
  EXPECT_FALSE(of_families(hint, {"rows"}).near) << "nothing is left for N = 8";
}

class TransferTest : public TuneTest {
 protected:
  void SetUp() override {
    TuneTest::SetUp();
    options_.selection = {};
    options_.tokens = {1, 8};
  }

  // Candidates verified for each of `count` weights of one kind, as they came to the device; the run's choices in
  // `report`.
  std::vector<int> verified_for_each(int count, TuneReport& report, unsigned first_seed = 1) {
    std::vector<WeightInput> weights;
    for (int i = 0; i < count; ++i)
      weights.push_back({"w" + std::to_string(i),
                         [=] { return sample_weight(512, 256, 0.15, first_seed + static_cast<unsigned>(i)); }});
    device_.verified_each.clear();
    report = run(weights);
    return device_.verified_each;
  }
};

TEST_F(TransferTest, AfterTheFirstOfItsKindAWeightCostsAFewCandidates) {
  TuneReport report;
  const std::vector<int> verified = verified_for_each(8, report);
  EXPECT_GE(verified[0], 40) << "two full searches";
  for (int i = 1; i < 8; ++i) EXPECT_LE(verified[i], 2 * 8) << "weight " << i;
  EXPECT_EQ(report.transferred, 14);
  ASSERT_EQ(report.weights.size(), 8U);
  // A kernel takes as long here for all of them, so what is best for one is best for all.
  for (const WeightResult& weight : report.weights) {
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(weight.buckets[i].us(), report.weights[0].buckets[i].us()) << weight.name;
  }
}

// Such a weight is put off before it is read. More weights than may be prepared at once: none is left behind.
TEST_F(TransferTest, WeightsOfKnownStatisticsWaitForTheFirstOfTheirKindAndNoLonger) {
  std::vector<WeightInput> weights;
  for (int i = 0; i < 40; ++i) {
    const int rows = i % 2 == 0 ? 512 : 128;
    const auto load = [=] { return sample_weight(rows, 256, 0.15, static_cast<unsigned>(i + 1)); };
    weights.push_back({.name = "w" + std::to_string(i), .load = load, .members = {}, .statistics = {}});
    weights.back().statistics = compute_statistics(load());
  }
  const TuneReport report = run(weights);
  EXPECT_EQ(report.weights.size(), 40U);
  EXPECT_EQ(report.transferred, 2 * 38);
}

// What is fastest with one epilogue is no hint for another one: each has one full search, without waiting for the
// other.
TEST_F(TransferTest, WeightsWithDifferentEpiloguesAreOfDifferentKinds) {
  std::vector<WeightInput> weights;
  for (int i = 0; i < 8; ++i) {
    const auto load = [=] { return sample_weight(512, 256, 0.15, static_cast<unsigned>(i + 1)); };
    weights.push_back({.name = "w" + std::to_string(i), .load = load});
    weights.back().statistics = compute_statistics(load());
    if (i % 2 == 1) weights.back().epilogue = *Epilogue::parse("bias");
  }
  const TuneReport report = run(weights);
  EXPECT_EQ(report.transferred, 2 * 6);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(report.weights.at(static_cast<std::size_t>(i)).buckets.at(0).spec.epilogue.bias, i % 2 == 1) << i;
}

TEST(TransferWaitingTest, OnlyWeightsOfTheSameOperatorWait) {
  Transfer transfer(nullptr);
  ProblemKey key = key_of("a", 0);
  const WeightProfile searched = profile(512, 256, 1000);
  EXPECT_FALSE(transfer.must_wait(searched, key.operator_name));
  EXPECT_TRUE(transfer.ask(key, searched, {1}, true).has_value());
  EXPECT_TRUE(transfer.must_wait(searched, key.operator_name));
  EXPECT_FALSE(transfer.must_wait(searched, key.operator_name + "+bias"));
  transfer.finished(key);
  EXPECT_FALSE(transfer.must_wait(searched, key.operator_name));
}

TEST_F(TransferTest, TheCacheBringsItToTheNextRun) {
  TuneReport report;
  verified_for_each(1, report);
  const std::vector<int> verified = verified_for_each(3, report, 50);
  for (const int each : verified) EXPECT_LE(each, 2 * 8);
  EXPECT_EQ(report.transferred, 6);
  EXPECT_EQ(report.cached, 0);
}

TEST_F(TransferTest, ProposalsOfDenseAreThoseThatWereFastForTheShape) {
  std::vector<Trial> trials;
  for (const auto& [family, us] : {std::pair{"dense", 10.0}, {"dense", 10.4}, {"dense", 10.6}, {"rows", 5.0}}) {
    Trial& each = trials.emplace_back();
    each.candidate.config = {family, {{"proposal", std::ssize(trials) - 1}}};
    each.baseline = is_baseline(each.candidate.config);
    each.state = Trial::State::kTimed;
    each.timing.median_us = us;
  }
  Transfer transfer(nullptr);
  transfer.remember(key_of("a", 8), profile(512, 256, 1000), trials, "");
  EXPECT_THAT(transfer.baseline(key_of("", 8), profile(512, 256, 9000)),
              testing::ElementsAre(trials[0].candidate.config, trials[1].candidate.config));
  EXPECT_THAT(transfer.baseline(key_of("", 16), profile(512, 256, 1000)), testing::IsEmpty());
  EXPECT_THAT(transfer.baseline(key_of("", 8), profile(256, 512, 1000)), testing::IsEmpty());
}

// Weights of one kind in a cache, each with the measurements of a search: one that tried few candidates is no hint.
TEST_F(TransferTest, OnlyFullSearchesInTheCacheTeach) {
  for (const int candidates : {9, 10}) {
    const std::string path = directory_.file("measurements" + std::to_string(candidates) + ".db");
    auto cache = Cache::open(path, Cache::Mode::kReadWrite);
    ASSERT_TRUE(cache.ok()) << cache.status().to_string();
    const ProblemKey key{"known", "spmm_fp16_token_major_none", 1, "sm_90 132 SMs", "cold_weights"};
    const WeightRecord known = {
        .pattern_hash = "known", .value_hash = "", .rows = 512, .cols = 256, .nnz = 1000, .histogram = "[0,10]"};
    ASSERT_TRUE(cache->put_weight(known).ok());
    for (int i = 0; i < candidates; ++i) {
      MeasurementRecord record;
      record.key = key;
      record.config = "rows a=" + std::to_string(i);
      record.packing = "p";
      record.status = MeasurementStatus::kOk;
      record.median_us = 5 + i;
      const auto id = cache->begin(record);
      ASSERT_TRUE(id.ok()) << id.status().to_string();
      ASSERT_TRUE(cache->finish(*id, record).ok());
    }
    ProblemKey asked = key;
    asked.pattern_hash = "another";
    const std::vector<double> structure = {0.5, 0.25, 0.9};
    const auto hint_for = [&](std::vector<double> fill) {
      return *Transfer(&*cache).ask(asked, profile(512, 256, 1000, {0, 10}, std::move(fill)), {1}, false);
    };
    EXPECT_EQ(hint_for(structure).configs.empty(), candidates < 10) << candidates;
    EXPECT_FALSE(hint_for(structure).near) << "an earlier version did not know its structure";
    WeightRecord again = known;
    again.histogram = histogram_text(profile(512, 256, 1000, {0, 10}, structure));
    EXPECT_EQ(again.histogram, R"({"rows":[0,10],"structure":[0.5,0.25,0.9]})");
    ASSERT_TRUE(cache->put_weight(again).ok());
    EXPECT_EQ(hint_for(structure).near, candidates == 10);
    EXPECT_FALSE(hint_for({1, 1, 0.9}).near);
  }
}

TEST_F(TransferTest, WhatWasFoundShortlyTeachesNothing) {
  // The second weight, found by the first one's choices, does not stand for it when the first is forgotten: the next
  // one learns from the full search alone.
  TuneReport report;
  const std::vector<int> verified = verified_for_each(2, report);
  EXPECT_GT(verified[0], verified[1]);
  Transfer transfer(nullptr);
  const auto find = [&](const char* pattern, std::int64_t nnz, const std::vector<std::int64_t>& tokens) {
    return *transfer.ask(key_of(pattern, 0), profile(512, 256, nnz), tokens, /*searches=*/false);
  };
  EXPECT_TRUE(find("p", 1000, {1}).configs.empty());
  Trial trial;
  trial.candidate.config.family = "rows";
  trial.state = Trial::State::kTimed;
  trial.timing.median_us = 5;
  transfer.remember(key_of("q", 1), profile(512, 256, 1000), {trial}, "");
  const Transfer::Hint hint = find("p", 1000, {1});
  EXPECT_TRUE(hint.near);
  EXPECT_EQ(hint.fastest_us.at(1), 5);
  EXPECT_EQ(hint.configs.at(1).size(), 1U);
  EXPECT_TRUE(find("q", 1000, {1}).configs.empty()) << "not from itself";
  EXPECT_TRUE(find("p", 1000, {1, 8}).configs.empty()) << "not known at N = 8";
  EXPECT_FALSE(find("p", 1200, {1}).near);
}

TEST_F(TransferTest, ItCanBeLeft) {
  options_.transfer = false;
  TuneReport report;
  const std::vector<int> verified = verified_for_each(2, report);
  EXPECT_GE(verified[1], 40);
  EXPECT_EQ(report.transferred, 0);
}

TEST_F(TransferTest, WhatTakesFarLongerThanForItsLikeIsSearchedOn) {
  TuneReport report;
  verified_for_each(1, report);
  const int like = verified_for_each(1, report, 50)[0];
  // Whatever was fast is slow now, as if the device were another one.
  device_.time_us = [](const CompiledCandidate& c) {
    return 8 + static_cast<double>(hash64(c.kernels.front().name) % 1000) / 200;
  };
  EXPECT_GT(verified_for_each(1, report, 60)[0], like + 4);
  EXPECT_EQ(report.transferred, 2);
}

TEST_F(TransferTest, AFailingHintIsNoEnd) {
  // Whatever the first weight found best is deadly for the second: what was predicted for it is left. One N, since two
  // packings of so small a weight may be larger than dense, and then one of two N keeps dense.
  options_.tokens = {8};
  TuneReport report;
  verified_for_each(1, report);
  std::set<std::string> good;
  for (const BucketChoice& bucket : report.weights[0].buckets) good.insert(bucket.candidate.kernels.front().name);
  device_.is_wrong = [=](const CompiledCandidate& c) { return good.contains(c.kernels.front().name); };
  verified_for_each(1, report, 50);
  ASSERT_EQ(report.pairs, 1);
  EXPECT_LT(report.weights[0].buckets.front().us(), 20);
}

}  // namespace
}  // namespace sparsmith
