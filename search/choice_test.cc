#include "search/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/drawn_matrix.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kAnyBytes = std::int64_t{1} << 62;
using Packings = std::vector<std::string>;

Contender contender(const std::string& packing, double us, double spread = 0) {
  Contender made;
  made.identity.packing = packing;
  made.state = Contender::State::kTimed;
  made.in_final = true;
  made.timing.median_us = us;
  made.timing.q1_us = us - spread;
  made.timing.q3_us = us + spread;
  return made;
}

VendorTiming dense(double us) {
  VendorTiming vendor;
  vendor.name = "cublas";
  vendor.timing.median_us = vendor.timing.q1_us = vendor.timing.q3_us = us;
  return vendor;
}

TEST(ChoosePackings, OneServesAllByCalls) {
  // "a" is best at the first N, "b" at the second, which is called less.
  std::vector<BucketTimes> buckets = {{10, 20, {{"a", 5}, {"b", 7}}}, {1, 20, {{"a", 12}, {"b", 6}}}};
  EXPECT_EQ(choose_packings(buckets, {}, {1, kAnyBytes}, Objective::kTime), Packings({"a"}));
  buckets[1].calls = 100;
  EXPECT_EQ(choose_packings(buckets, {}, {1, kAnyBytes}, Objective::kTime), Packings({"b"}));
  EXPECT_EQ(choose_packings(buckets, {}, {2, kAnyBytes}, Objective::kTime).size(), 2U);
}

TEST(ChoosePackings, AFurtherCopyCountsAtItsN) {
  // "p" and "q" are each best at one N; "rows" serves both, and is in the way once they are there. What N = 1 gains is
  // nothing beside what N = 512 takes.
  const std::vector<BucketTimes> buckets = {{1, 60, {{"rows", 12}, {"q", 9}}}, {1, 1400, {{"rows", 1000}, {"p", 860}}}};
  EXPECT_THAT(choose_packings(buckets, {}, {2, kAnyBytes}, Objective::kTime), testing::UnorderedElementsAre("p", "q"));
  EXPECT_THAT(choose_packings(buckets, {}, {3, kAnyBytes}, Objective::kTime), testing::UnorderedElementsAre("p", "q"));
  const std::vector<BucketTimes> close = {{1, 60, {{"rows", 9.1}, {"q", 9}}}, {1, 1400, {{"rows", 1000}, {"p", 995}}}};
  EXPECT_THAT(choose_packings(close, {}, {2, kAnyBytes}, Objective::kTime), testing::SizeIs(1));
}

TEST(ChoosePackings, AFurtherCopyMustTakeEnoughOffTheSumOrOffSomeN) {
  // "a" serves both N; "b" takes the share `off` off the second, which takes `second` us of 100.
  const auto kept = [](double second, double off) {
    const std::vector<BucketTimes> buckets = {{1, 0, {{"a", 100 - second}, {"b", 500}}},
                                              {1, 0, {{"a", second}, {"b", second * (1 - off)}}}};
    return choose_packings(buckets, {}, {2, kAnyBytes}, Objective::kTime).size();
  };
  EXPECT_EQ(kept(60, 0.013), 2U) << "0.78 % of the sum";
  EXPECT_EQ(kept(60, 0.010), 1U) << "0.6 % of the sum";
  EXPECT_EQ(kept(10, 0.022), 2U) << "2.2 % of an N";
  EXPECT_EQ(kept(10, 0.018), 1U) << "1.8 % of an N";
}

TEST(ChoosePackings, DenseIsKeptWhereItIsFasterByMoreThanTheNoise) {
  const auto keeps = [](double dense_us) {
    return keeps_dense({{1, 20, {{"a", 10}}}, {1, dense_us, {{"a", 10}}}}, {"a"});
  };
  EXPECT_TRUE(keeps(9.8));
  EXPECT_FALSE(keeps(9.95));
  EXPECT_FALSE(keeps(12));
  EXPECT_TRUE(keeps_dense({{1, 10.05, {{"a", 10}}}}, {"a"})) << "nothing gains";
  EXPECT_FALSE(keeps_dense({{1, 10.2, {{"a", 10}}}}, {"a"}));
}

TEST(ChoosePackings, SeveralCopiesStayBelowTheBytesAllowed) {
  const std::vector<BucketTimes> buckets = {{1, 60, {{"a", 5}, {"b", 9}}}, {1, 60, {{"a", 9}, {"b", 5}, {"c", 8}}}};
  const std::map<std::string, std::int64_t> bytes = {{"a", 60}, {"b", 60}, {"c", 30}};
  EXPECT_THAT(choose_packings(buckets, bytes, {3, 120}, Objective::kTime), testing::UnorderedElementsAre("a", "b"));
  EXPECT_THAT(choose_packings(buckets, bytes, {3, 119}, Objective::kTime), testing::UnorderedElementsAre("a", "c"));
  EXPECT_THAT(choose_packings(buckets, bytes, {3, 10}, Objective::kTime), testing::SizeIs(1));  // one in any case
}

TEST(ChoosePackings, TheDenseWeightCountsWhereSomeNNeedsIt) {
  // "a" and "b" are each best at one N; at N = 64 dense is.
  const std::vector<BucketTimes> buckets = {
      {1, 24, {{"a", 16}, {"b", 18}}}, {1, 24, {{"a", 30}, {"b", 18}}}, {1, 20, {{"a", 40}, {"b", 30}}}};
  const std::map<std::string, std::int64_t> bytes = {{"a", 75}, {"b", 56}};
  EXPECT_TRUE(keeps_dense(buckets, {"a", "b"}));
  EXPECT_THAT(choose_packings(buckets, bytes, {2, 231, 100}, Objective::kTime),
              testing::UnorderedElementsAre("a", "b"));
  EXPECT_THAT(choose_packings(buckets, bytes, {2, 230, 100}, Objective::kTime), testing::ElementsAre("b"));
  EXPECT_THAT(choose_packings(buckets, bytes, {2, 90, 100}, Objective::kTime), testing::ElementsAre("b"))
      << "one beside dense in any case";
}

TEST(ChoosePackings, NobodyNeedsDenseForLessThanTheNoise) {
  const std::vector<BucketTimes> buckets = {
      {1, 3.43, {{"a", 2.4}, {"b", 2.7}}}, {1, 3.44, {{"b", 2.6}}}, {1, 3.55, {{"b", 3.57}}}};
  const std::map<std::string, std::int64_t> bytes = {{"a", 84}, {"b", 102}};
  EXPECT_FALSE(keeps_dense(buckets, {"a", "b"}));
  EXPECT_TRUE(keeps_dense(buckets, {"a"}));
  EXPECT_TRUE(keeps_dense(buckets, {}));
  EXPECT_FALSE(keeps_dense({{1, 0, {{"a", 1}}}}, {}));  // dense was not measured
  EXPECT_TRUE(keeps_dense({{1, 10, {{"a", 9.95}}}}, {"a"})) << "nothing gains: dense stays";
  EXPECT_FALSE(keeps_dense({{1, 10, {{"a", 9.95}}}, {1, 10, {{"a", 9.5}}}}, {"a"}));
  EXPECT_THAT(choose_packings(buckets, bytes, {2, 200, 100}, Objective::kTime),
              testing::UnorderedElementsAre("a", "b"));
}

// What all N take with these packings and dense.
double cost_with(const std::vector<BucketTimes>& buckets, const Packings& kept) {
  double sum = 0;
  for (const BucketTimes& bucket : buckets) {
    double us = bucket.dense_us;
    for (const std::string& name : kept)
      if (const auto found = bucket.best_us.find(name); found != bucket.best_us.end()) us = std::min(us, found->second);
    sum += us;
  }
  return sum;
}

bool within(const std::vector<BucketTimes>& buckets, const std::map<std::string, std::int64_t>& bytes,
            const PackingLimits& limits, const Packings& kept) {
  std::int64_t sum = keeps_dense(buckets, kept) ? limits.dense_bytes : 0;
  for (const std::string& name : kept) sum += bytes.at(name);
  return static_cast<int>(kept.size()) <= limits.packings && (kept.size() <= 1 || sum <= limits.bytes);
}

// Of every subset of the packings that may be kept, the least time over all N.
double least_cost(const std::vector<BucketTimes>& buckets, const std::map<std::string, std::int64_t>& bytes,
                  const PackingLimits& limits) {
  const std::vector<std::pair<std::string, std::int64_t>> all(bytes.begin(), bytes.end());
  double least = cost_with(buckets, {});
  for (unsigned subset = 1; subset < 1U << all.size(); ++subset) {
    Packings kept;
    for (std::size_t i = 0; i < all.size(); ++i)
      if ((subset >> i & 1U) != 0) kept.push_back(all[i].first);
    if (within(buckets, bytes, limits, kept)) least = std::min(least, cost_with(buckets, kept));
  }
  return least;
}

TEST(ChoosePackings, DrawnOnesKeepTheLimitsAndAreNearTheBestSubset) {
  test::DrawnRandom random;
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int near = 0;
  constexpr int kRuns = 500;
  for (int run = 0; run < kRuns; ++run) {
    std::map<std::string, std::int64_t> bytes;
    for (const char* name : {"a", "b", "c", "d", "e"}) bytes[name] = draw(10, 110);
    std::vector<BucketTimes> buckets(static_cast<std::size_t>(draw(1, 4)));
    for (BucketTimes& bucket : buckets) {
      bucket.dense_us = 10;
      for (const auto& [name, size] : bytes) {
        const auto us = static_cast<double>(draw(40, 150)) / 10;
        if (random() % 4 != 0) bucket.best_us[name] = us;
      }
    }
    const PackingLimits limits{static_cast<int>(draw(1, 4)), 200, 100};
    const Packings kept = choose_packings(buckets, bytes, limits, Objective::kTime);
    EXPECT_TRUE(within(buckets, bytes, limits, kept)) << run;
    EXPECT_LE(cost_with(buckets, kept), cost_with(buckets, {})) << run;
    // A copy must pay for itself, so some tenths are left.
    near += cost_with(buckets, kept) <= 1.03 * least_cost(buckets, bytes, limits) ? 1 : 0;
  }
  EXPECT_GE(near, kRuns * 19 / 20);
}

TEST(ChoosePackings, ALargeOneForEveryNDoesNotStandInTheWayOfTwoSmallOnes) {
  const std::vector<BucketTimes> buckets = {{1, 6.90, {{"small", 2.72}, {"large", 4.61}}},
                                            {1, 6.91, {{"middle", 4.99}, {"large", 5.02}}},
                                            {1, 7.25, {{"large", 9.66}}}};
  const std::map<std::string, std::int64_t> bytes = {{"small", 23}, {"middle", 39}, {"large", 84}};
  EXPECT_THAT(choose_packings(buckets, bytes, {2, 84}, Objective::kTime),
              testing::UnorderedElementsAre("small", "middle"));
}

TEST(ChoosePackings, DenseFillsWhereAPackingIsSlowerOrMissing) {
  const std::vector<BucketTimes> buckets = {{1, 20, {{"a", 5}}}, {1, 8, {{"a", 30}, {"b", 10}}}};
  EXPECT_EQ(choose_packings(buckets, {}, {2, kAnyBytes}, Objective::kTime), Packings({"a"}));
  EXPECT_EQ(choose_packings({{1, 4, {{"a", 5}}}}, {}, {1, kAnyBytes}, Objective::kTime), Packings());
  // Without dense, and with no packing that serves every N, nothing can be chosen.
  EXPECT_EQ(choose_packings({{1, 0, {{"a", 5}}}, {1, 0, {{"b", 5}}}}, {}, {2, kAnyBytes}, Objective::kTime).size(), 2U);
}

TEST(ChoosePackings, TiesAndBytesGoToTheSmaller) {
  const std::map<std::string, std::int64_t> bytes = {{"a", 200}, {"b", 100}, {"c", 10}};
  const std::vector<BucketTimes> buckets = {{1, 20, {{"a", 5}, {"b", 5}, {"c", 30}}}};
  EXPECT_EQ(choose_packings(buckets, bytes, {1, kAnyBytes}, Objective::kTime), Packings({"b"}));
  EXPECT_EQ(choose_packings({{1, 40, {{"a", 5}, {"b", 5}, {"c", 30}}}}, bytes, {1, kAnyBytes}, Objective::kBytes),
            Packings({"c"}));
  EXPECT_EQ(choose_packings(buckets, bytes, {1, kAnyBytes}, Objective::kBytes),
            Packings({"b"}));  // c is slower than dense
}

TEST(ChoosePackings, SaysWhereMemoryCouldNotDecide) {
  const std::vector<BucketTimes> buckets = {{1, 20, {{"a", 5}, {"b", 5}}}, {1, 20, {{"a", 30}, {"b", 20}}}};
  EXPECT_TRUE(meets_bytes_objective(buckets, {"b"}, std::nullopt));
  EXPECT_FALSE(meets_bytes_objective(buckets, {"a"}, std::nullopt));
  EXPECT_FALSE(meets_bytes_objective(buckets, {"a", "b"}, std::nullopt));
  EXPECT_FALSE(meets_bytes_objective(buckets, {}, std::nullopt));
  EXPECT_FALSE(meets_bytes_objective({{1, 20, {{"a", 5}, {"b", 4}}}}, {"a"}, 0.1));
}

TEST(ChoosePackings, ASlowdownBoundsWhatFewerBytesMayCost) {
  const std::map<std::string, std::int64_t> bytes = {{"fast", 200}, {"small", 100}, {"tiny", 10}};
  const std::vector<BucketTimes> buckets = {{1, 40, {{"fast", 10}, {"small", 10.9}, {"tiny", 30}}},
                                            {1, 40, {{"fast", 20}, {"small", 20}, {"tiny", 20}}}};
  const auto within = [&](std::optional<double> slowdown) {
    return choose_packings(buckets, bytes, {1, kAnyBytes}, Objective::kBytes, slowdown);
  };
  EXPECT_EQ(within(std::nullopt), Packings({"tiny"}));
  EXPECT_EQ(within(2.5), Packings({"tiny"}));
  EXPECT_EQ(within(0.1), Packings({"small"}));
  EXPECT_EQ(within(0.05), Packings({"fast"}));
}

TEST(Decide, ForFewerBytesAsFastAsDenseIsEnough) {
  VendorTiming vendor = dense(10);
  vendor.weight_bytes = 100;
  std::vector<Contender> contenders = {contender("a", 9.99)};
  contenders[0].packed_bytes = 60;
  EXPECT_EQ(decide(contenders, {"a"}, &vendor)->winner, nullptr);
  EXPECT_EQ(decide(contenders, {"a"}, &vendor, Objective::kBytes)->winner, contenders.data());
  contenders[0].packed_bytes = 100;
  EXPECT_EQ(decide(contenders, {"a"}, &vendor, Objective::kBytes)->winner, nullptr) << "it saves nothing";
  contenders[0] = contender("a", 10.01);
  EXPECT_EQ(decide(contenders, {"a"}, &vendor, Objective::kBytes)->winner, nullptr);
}

TEST(Decide, DenseStaysUnlessItIsClearlyBeaten) {
  const VendorTiming vendor = dense(10);
  std::vector<Contender> contenders = {contender("a", 9.95)};
  EXPECT_EQ(decide(contenders, {"a"}, &vendor)->winner, nullptr);
  contenders[0] = contender("a", 9.0, 1.5);  // faster, but its quartiles are 17 % apart
  EXPECT_EQ(decide(contenders, {"a"}, &vendor)->winner, nullptr);
  contenders[0] = contender("a", 9.0, 0.1);
  EXPECT_EQ(decide(contenders, {"a"}, &vendor)->winner, contenders.data());
  EXPECT_FALSE(decide(contenders, {"a"}, &vendor)->reason.empty());
}

TEST(Decide, DenseIsNotKeptForTimesWithinTheNoiseAlone) {
  const VendorTiming vendor = dense(10);
  std::vector<Contender> contenders = {contender("a", 10.05)};
  EXPECT_EQ(decide(contenders, {"a"}, &vendor, Objective::kTime, true)->winner, nullptr);
  const auto decision = decide(contenders, {"a"}, &vendor, Objective::kTime, false);
  EXPECT_EQ(decision->winner, contenders.data());
  EXPECT_NE(decision->reason.find("as fast as dense"), std::string::npos);
  contenders[0] = contender("a", 10.3);
  EXPECT_EQ(decide(contenders, {"a"}, &vendor, Objective::kTime, false)->winner, nullptr);
}

// Otherwise the reason would contradict itself.
TEST(Decide, SaysThatAPackingIsNotKept) {
  const VendorTiming vendor = dense(10);
  const std::vector<Contender> contenders = {contender("a", 4)};
  EXPECT_NE(decide(contenders, {"b"}, &vendor)->reason.find("its packing is none that the weight keeps"),
            std::string::npos);
  const std::vector<Contender> slower = {contender("a", 11)};
  EXPECT_NE(decide(slower, {"b"}, &vendor)->reason.find("the best sparse candidate takes 11.00 us"), std::string::npos);
}

TEST(Decide, AnIncumbentStaysUnlessItIsClearlyBeaten) {
  std::vector<Contender> contenders = {contender("a", 5.00), contender("a", 5.02)};
  contenders[1].incumbent = true;
  EXPECT_EQ(decide(contenders, {"a"}, nullptr)->winner, &contenders[1]);
  contenders[0] = contender("a", 4.5);
  EXPECT_EQ(decide(contenders, {"a"}, nullptr)->winner, contenders.data());
}

TEST(Decide, LooksAtKeptPackingsAndAtTheFinalFirst) {
  std::vector<Contender> contenders = {contender("a", 5), contender("b", 1), contender("a", 4)};
  contenders[2].in_final = false;
  EXPECT_EQ(decide(contenders, {"a"}, nullptr)->winner, contenders.data());
  EXPECT_FALSE(decide(contenders, {}, nullptr).has_value());
  VendorTiming missing = dense(0);
  missing.supported = false;
  EXPECT_FALSE(decide({}, {"a"}, &missing).has_value());
}

TEST(Noise, IsOnePercentOrTheQuartiles) {
  EXPECT_DOUBLE_EQ(noise_of(contender("", 10).timing, contender("", 9).timing), 0.01);
  EXPECT_NEAR(noise_of(contender("", 10, 0.3).timing, contender("", 10, 0.4).timing), 0.05, 1e-9);
}

}  // namespace
}  // namespace sparsmith
