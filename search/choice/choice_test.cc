#include "search/choice/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/drawn_matrix.h"

namespace sparsmith {
namespace {

constexpr std::int64_t kAnyBytes = std::int64_t{1} << 62;
using Packings = std::vector<std::string>;
using Bytes = std::map<std::string, std::int64_t>;

Trial trial(const std::string& packing, double us, double spread = 0) {
  Trial made;
  made.identity.packing = packing;
  made.state = Trial::State::kTimed;
  made.in_final = true;
  made.timing.median_us = us;
  made.timing.q1_us = us - spread;
  made.timing.q3_us = us + spread;
  return made;
}

Trial dense(double us) {
  Trial made = trial("dense", us);
  made.baseline = true;
  return made;
}

TEST(ChoosePackings, OneServesAllByCallsWhereThereIsRoomForOne) {
  // "a" is best at the first N, "b" at the second, which is called less.
  std::vector<BucketTimes> buckets = {{10, 20, {{"a", 5}, {"b", 7}}}, {1, 20, {{"a", 12}, {"b", 6}}}};
  const Bytes bytes = {{"a", 60}, {"b", 60}};
  EXPECT_EQ(choose_packings(buckets, bytes, 100), Packings({"a"}));
  buckets[1].calls = 100;
  EXPECT_EQ(choose_packings(buckets, bytes, 100), Packings({"b"}));
  EXPECT_EQ(choose_packings(buckets, bytes, 120).size(), 2U);
  EXPECT_EQ(choose_packings(buckets, bytes, 59), Packings());
}

TEST(ChoosePackings, AFurtherCopyCountsAtItsN) {
  // "p" and "q" are each best at one N; "rows" serves both, and is in the way once they are there. What N = 1 gains is
  // nothing beside what N = 512 takes.
  const std::vector<BucketTimes> buckets = {{1, 60, {{"rows", 12}, {"q", 9}}}, {1, 1400, {{"rows", 1000}, {"p", 860}}}};
  EXPECT_THAT(choose_packings(buckets, {}, kAnyBytes), testing::UnorderedElementsAre("p", "q"));
  const std::vector<BucketTimes> close = {{1, 60, {{"rows", 9.1}, {"q", 9}}}, {1, 1400, {{"rows", 1000}, {"p", 995}}}};
  EXPECT_THAT(choose_packings(close, {{"rows", 50}, {"p", 40}, {"q", 40}}, kAnyBytes), testing::ElementsAre("rows"));
}

TEST(ChoosePackings, AFurtherCopyMustTakeEnoughOffTheSumOrOffSomeN) {
  // "a" serves both N; "b" takes the share `off` off the second, which takes `second` us of 100.
  const auto kept = [](double second, double off) {
    const std::vector<BucketTimes> buckets = {{1, 0, {{"a", 100 - second}, {"b", 500}}},
                                              {1, 0, {{"a", second}, {"b", second * (1 - off)}}}};
    return choose_packings(buckets, {}, kAnyBytes).size();
  };
  EXPECT_EQ(kept(60, 0.013), 2U) << "0.78 % of the sum";
  EXPECT_EQ(kept(60, 0.010), 1U) << "0.6 % of the sum";
  EXPECT_EQ(kept(10, 0.022), 2U) << "2.2 % of an N";
  EXPECT_EQ(kept(10, 0.018), 1U) << "1.8 % of an N";
}

TEST(ChoosePackings, OfWaysAsFastTheSmallestIsKept) {
  const std::vector<BucketTimes> buckets = {{1, 20, {{"large", 10}, {"small", 10.06}, {"slow", 10.2}, {"dense", 20}}}};
  EXPECT_EQ(choose_packings(buckets, {{"large", 80}, {"small", 40}, {"slow", 10}, {"dense", 100}}, 100),
            Packings({"small"}));
  // As fast as dense, and smaller.
  EXPECT_EQ(choose_packings({{1, 10, {{"a", 10.05}, {"dense", 10}}}}, {{"a", 60}, {"dense", 100}}, 100),
            Packings({"a"}));
  EXPECT_EQ(choose_packings({{1, 10, {{"a", 9.95}, {"dense", 10}}}}, {{"a", 160}, {"dense", 100}}, 300),
            Packings({"dense"}));
}

TEST(ChoosePackings, NoNIsSlowerThanDense) {
  const Bytes bytes = {{"a", 40}, {"b", 50}, {"dense", 100}};
  // "a" takes 4 % longer than dense at the second N, where "b" takes 2 % longer.
  std::vector<BucketTimes> buckets = {{1, 20, {{"a", 5}, {"b", 12}, {"dense", 20}}},
                                      {1, 50, {{"a", 52}, {"b", 51}, {"dense", 50}}}};
  EXPECT_THAT(choose_packings(buckets, bytes, 100), testing::UnorderedElementsAre("a", "b"));
  EXPECT_THAT(choose_packings(buckets, bytes, 89), testing::ElementsAre("b"));
  EXPECT_THAT(choose_packings(buckets, bytes, 39), testing::IsEmpty());
  // Dense alone, until there is room for both.
  buckets[1].best_us["b"] = 52;
  EXPECT_THAT(choose_packings(buckets, bytes, 100), testing::ElementsAre("dense"));
  EXPECT_THAT(choose_packings(buckets, bytes, 139), testing::ElementsAre("dense"));
  EXPECT_THAT(choose_packings(buckets, bytes, 140), testing::UnorderedElementsAre("a", "dense"));
  // Where dense is not known, nothing is too slow.
  for (BucketTimes& bucket : buckets) bucket = {1, 0, {{"a", 500}}};
  EXPECT_THAT(choose_packings(buckets, bytes, 40), testing::ElementsAre("a"));
  EXPECT_EQ(least_bytes({{1, 0, {{"a", 5}}}, {1, 0, {}}}, bytes), 0) << "nothing serves the second";
}

TEST(ChoosePackings, ABoundBelowDenseComesBeforeItsTime) {
  const Bytes bytes = {{"a", 40}, {"b", 50}, {"dense", 100}};
  std::vector<BucketTimes> buckets = {{1, 20, {{"a", 5}, {"b", 12}, {"dense", 20}}},
                                      {1, 50, {{"a", 70}, {"b", 51}, {"dense", 50}}}};
  EXPECT_THAT(choose_packings(buckets, bytes, 50), testing::ElementsAre("b")) << "as fast as dense";
  EXPECT_THAT(choose_packings(buckets, bytes, 49), testing::ElementsAre("a"));
  EXPECT_EQ(least_bytes(buckets, bytes), 40);
  buckets[1].best_us["b"] = 60;
  EXPECT_THAT(choose_packings(buckets, bytes, 99), testing::UnorderedElementsAre("a", "b"));
  EXPECT_THAT(choose_packings(buckets, bytes, 60), testing::ElementsAre("b"));
  EXPECT_THAT(choose_packings(buckets, bytes, 100), testing::ElementsAre("dense"));
}

// Whether each N is served, and none slower than dense by more than this share.
bool serves(const std::vector<BucketTimes>& buckets, const Packings& kept, double most_slowdown) {
  return std::ranges::all_of(buckets, [&](const BucketTimes& bucket) {
    return std::ranges::any_of(kept, [&](const std::string& name) {
      const auto found = bucket.best_us.find(name);
      return found != bucket.best_us.end() && found->second <= (1 + most_slowdown) * bucket.dense_us;
    });
  });
}
bool keeps_promise(const std::vector<BucketTimes>& buckets, const Packings& kept) {
  return serves(buckets, kept, kMostSlowdown);
}

TEST(ChoosePackings, DrawnOnesKeepBothPromisesAndAreNearTheBestSubset) {
  test::DrawnRandom random;
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int near = 0;
  int found = 0;
  constexpr int kRuns = 500;
  for (int run = 0; run < kRuns; ++run) {
    Bytes bytes = {{"dense", 100}};
    for (const char* name : {"a", "b", "c", "d", "e"}) bytes[name] = draw(10, 110);
    std::vector<BucketTimes> buckets(static_cast<std::size_t>(draw(1, 4)));
    for (BucketTimes& bucket : buckets) {
      bucket.dense_us = 10;
      for (const auto& [name, size] : bytes) {
        const auto us = static_cast<double>(draw(40, 150)) / 10;
        if (random() % 4 != 0) bucket.best_us[name] = us;
      }
      bucket.best_us["dense"] = 10;
    }
    const std::int64_t room = draw(40, 220);
    // Of every subset that keeps the promises, the least time, and the fewest bytes.
    const std::vector<std::pair<std::string, std::int64_t>> all(bytes.begin(), bytes.end());
    double least = 1e9;
    double least_below_dense = 1e9;  // without the promise
    std::int64_t fewest = kAnyBytes;
    for (unsigned subset = 1; subset < 1U << all.size(); ++subset) {
      Packings kept;
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if ((subset >> i & 1U) == 0) continue;
        kept.push_back(all[i].first);
        sum += all[i].second;
      }
      const bool promise = keeps_promise(buckets, kept);
      if (!promise && (sum >= 100 || !serves(buckets, kept, 1e9))) continue;
      fewest = std::min(fewest, sum);
      double& of_these = promise ? least : least_below_dense;
      if (sum <= room) of_these = std::min(of_these, time_with(buckets, kept));
    }
    if (least == 1e9 && room < 100) least = least_below_dense;
    const Packings kept = choose_packings(buckets, bytes, room);
    std::int64_t sum = 0;
    for (const std::string& name : kept) sum += bytes.at(name);
    EXPECT_LE(sum, room) << run;
    EXPECT_TRUE(kept.empty() || room < 100 || keeps_promise(buckets, kept)) << run;
    EXPECT_GE(least_bytes(buckets, bytes), fewest) << run;
    found += kept.empty() == (least == 1e9) ? 1 : 0;
    // A copy must pay for itself, so some tenths are left.
    near += kept.empty() || time_with(buckets, kept) <= 1.03 * least ? 1 : 0;
  }
  EXPECT_GE(near, kRuns * 19 / 20);
  EXPECT_GE(found, kRuns * 97 / 100);
}

// "d" is dropped once "a" is there, and "a" once "d" is there: the walk must not take them in turns for ever.
TEST(ChoosePackings, TwoThatReplaceEachOther) {
  const std::vector<BucketTimes> buckets = {{1, 10, {{"a", 7.6}, {"c", 7.9}, {"d", 7.5}, {"dense", 10}}},
                                            {1, 10, {{"a", 10}, {"c", 7.7}, {"e", 8.5}, {"dense", 10}}},
                                            {1, 10, {{"a", 4.4}, {"b", 7.6}, {"e", 4.5}, {"dense", 10}}},
                                            {1, 10, {{"a", 6.5}, {"b", 6.1}, {"e", 4.5}, {"dense", 10}}}};
  const Bytes bytes = {{"a", 60}, {"b", 15}, {"c", 91}, {"d", 96}, {"dense", 100}, {"e", 75}};
  const Packings kept = choose_packings(buckets, bytes, kAnyBytes);
  EXPECT_TRUE(keeps_promise(buckets, kept));
  EXPECT_LE(time_with(buckets, kept), 24.3);
}

TEST(ChoosePackings, ALargeOneForEveryNDoesNotStandInTheWayOfTwoSmallOnes) {
  const std::vector<BucketTimes> buckets = {{1, 6.90, {{"small", 2.72}, {"large", 4.61}}},
                                            {1, 6.91, {{"middle", 4.99}, {"large", 5.02}}}};
  const Bytes bytes = {{"small", 23}, {"middle", 39}, {"large", 84}};
  EXPECT_THAT(choose_packings(buckets, bytes, 84), testing::UnorderedElementsAre("small", "middle"));
}

// Beside the baseline, of what was measured.
std::optional<Winner> chosen(const std::vector<Trial>& trials, const Packings& kept) {
  return choose_trial(trials, kept, /*beside_baseline=*/true, /*predicted=*/false);
}

TEST(ChooseTrial, DenseThatIsKeptStaysUnlessItIsClearlyBeaten) {
  const Packings kept = {"a", "dense"};
  std::vector<Trial> trials = {trial("a", 9.95), dense(10)};
  EXPECT_EQ(chosen(trials, kept)->trial, &trials[1]);
  trials[0] = trial("a", 9.0, 1.5);  // faster, but its quartiles are 17 % apart
  EXPECT_EQ(chosen(trials, kept)->trial, &trials[1]);
  trials[0] = trial("a", 9.0, 0.1);
  EXPECT_EQ(chosen(trials, kept)->trial, trials.data());
  EXPECT_NE(chosen(trials, kept)->reason.find("1.11x as fast as dense"), std::string::npos);
}

TEST(ChooseTrial, DenseIsTheFastestOfItsConfigs) {
  std::vector<Trial> trials = {dense(12), dense(8), trial("a", 9), dense(8.05), dense(7)};
  trials[4].in_final = false;
  const Packings kept = {"a", "dense"};
  EXPECT_EQ(chosen(trials, kept)->trial, &trials[1]);
  trials[3].incumbent = true;
  EXPECT_EQ(chosen(trials, kept)->trial, &trials[3]) << "an earlier choice, as fast but for the noise";
  trials[1].state = trials[3].state = Trial::State::kRejected;
  EXPECT_EQ(baseline_of(trials, false), trials.data());
  EXPECT_EQ(chosen(trials, kept)->trial, &trials[2]);
}

TEST(ChooseTrial, DenseThatIsNotKeptServesNoN) {
  const std::vector<Trial> trials = {trial("a", 10.05), dense(10)};
  const auto winner = chosen(trials, {"a"});
  EXPECT_EQ(winner->trial, trials.data());
  EXPECT_NE(winner->reason.find("within 3 % of dense"), std::string::npos) << winner->reason;
  EXPECT_FALSE(chosen({dense(10)}, {"a"}).has_value());
}

// Otherwise the reason would contradict itself.
TEST(ChooseTrial, SaysThatAPackingIsNotKept) {
  std::vector<Trial> trials = {trial("a", 4), dense(10)};
  trials[0].packed_bytes = 50;
  trials[1].packed_bytes = 200;
  const auto winner = chosen(trials, {"dense"});
  EXPECT_EQ(winner->trial, &trials[1]);
  EXPECT_NE(winner->reason.find("0.25x the bytes of dense, together with dense 1.25x (--memory)"), std::string::npos)
      << winner->reason;
  EXPECT_NE(chosen({trial("a", 11), dense(10)}, {"dense"})->reason.find("the best sparse candidate takes 11.00"),
            std::string::npos);
}

// A packing that is too large is not verified where times are predicted.
TEST(ChooseTrial, WhatWaitsTakesWhatIsPredicted) {
  std::vector<Trial> trials = {trial("a", 0), dense(10)};
  trials[0].state = Trial::State::kWaiting;
  trials[0].candidate.predicted_us = 4;
  const auto winner = choose_trial(trials, {"dense"}, true, true);
  EXPECT_EQ(winner->trial, &trials[1]);
  EXPECT_NE(winner->reason.find("a sparse candidate takes 4.00 us"), std::string::npos) << winner->reason;
  EXPECT_EQ(choose_trial(trials, {"a", "dense"}, true, true)->trial, trials.data());
  EXPECT_NE(chosen(trials, {"dense"})->reason.find("no sparse candidate passed"), std::string::npos);
}

TEST(ChooseTrial, AnIncumbentStaysUnlessItIsClearlyBeaten) {
  std::vector<Trial> trials = {trial("a", 5.00), trial("a", 5.02)};
  trials[1].incumbent = true;
  EXPECT_EQ(chosen(trials, {"a"})->trial, &trials[1]);
  trials[0] = trial("a", 4.5);
  EXPECT_EQ(chosen(trials, {"a"})->trial, trials.data());
}

// Earlier choices that stand may be dense ones.
TEST(ChooseTrial, WhatStandsIsNotWeighedAgainstDense) {
  std::vector<Trial> trials = {trial("a", 20), dense(10)};
  const Packings kept = {"a", "dense"};
  EXPECT_EQ(choose_trial(trials, kept, /*beside_baseline=*/false, false)->trial, trials.data());
  trials[1].incumbent = true;
  EXPECT_EQ(choose_trial(trials, kept, /*beside_baseline=*/false, false)->trial, &trials[1]);
}

TEST(ChooseTrial, LooksAtKeptPackingsAndAtTheFinalFirst) {
  std::vector<Trial> trials = {trial("a", 5), trial("b", 1), trial("a", 4)};
  trials[2].in_final = false;
  const auto winner = chosen(trials, {"a"});
  EXPECT_EQ(winner->trial, trials.data());
  EXPECT_NE(winner->reason.find("the fastest candidate; dense was not measured"), std::string::npos) << winner->reason;
  EXPECT_FALSE(chosen(trials, {}).has_value());
  Trial missing = dense(0);
  missing.state = Trial::State::kRejected;
  missing.reason = "no library";
  EXPECT_FALSE(chosen({missing}, {"a", "dense"}).has_value());
  EXPECT_NE(chosen({trial("a", 5), missing}, {"a"})->reason.find("dense was not measured: no library"),
            std::string::npos);
}

TEST(Noise, IsOnePercentOrTheQuartiles) {
  EXPECT_DOUBLE_EQ(noise_of(trial("", 10).timing, trial("", 9).timing), 0.01);
  EXPECT_NEAR(noise_of(trial("", 10, 0.3).timing, trial("", 10, 0.4).timing), 0.05, 1e-9);
}

}  // namespace
}  // namespace sparsmith
