#include "tuner/time/gpu_timer.h"

#include <gtest/gtest.h>

namespace sparsmith {
namespace {

constexpr std::int64_t kL2 = 50 << 20;
constexpr std::int64_t kPlenty = std::int64_t{100} << 30;

TEST(PlanCopiesTest, CopiesExceedThreeTimesL2) {
  for (const std::int64_t bytes : {std::int64_t{100} << 10, std::int64_t{1} << 20, std::int64_t{1} << 30}) {
    const ReplayPlan plan = plan_copies(
        {.weight_bytes = bytes, .read_bytes = bytes, .l2_bytes = kL2, .free_bytes = kPlenty, .nodes = 1}, {});
    EXPECT_FALSE(plan.warm);
    EXPECT_GT(plan.copies * bytes, 3 * kL2);
    EXPECT_LE((plan.copies - 1) * bytes, 3 * kL2) << "not one more than it takes";
  }
}

TEST(PlanCopiesTest, WhatNobodyReadsMakesNothingCold) {
  const ReplayFigures all = {.weight_bytes = 4 << 20, .read_bytes = 4 << 20, .l2_bytes = kL2, .free_bytes = kPlenty};
  ReplayFigures half = all;
  half.read_bytes /= 2;
  EXPECT_EQ(plan_copies(all, {}).copies, 38);
  EXPECT_EQ(plan_copies(half, {}).copies, 76);
  half.free_bytes = 500 << 20;  // for which whole copies count
  EXPECT_TRUE(plan_copies(half, {}).warm);
}

// X and Y pass through L2 as well.
TEST(PlanCopiesTest, OperandsMakeCopiesCold) {
  constexpr std::int64_t kMiB = 1 << 20;
  ReplayFigures figures = {.weight_bytes = 5 * kMiB, .read_bytes = 5 * kMiB, .l2_bytes = kL2, .free_bytes = kPlenty};
  int before = plan_copies(figures, {}).copies;
  EXPECT_EQ(before, 31);
  for (const std::int64_t operands : {1, 20, 42, 100, 168, 1000}) {
    figures.operand_bytes = operands * kMiB;
    const ReplayPlan plan = plan_copies(figures, {});
    EXPECT_FALSE(plan.warm);
    EXPECT_LE(plan.copies, before);
    EXPECT_GE(plan.copies, 2) << "a copy that each launch reads to its end stays";
    EXPECT_GT(plan.copies * figures.read_bytes + (plan.copies - 1) * figures.operand_bytes, 3 * kL2);
    before = plan.copies;
  }
  EXPECT_EQ(before, 2);
}

TEST(PlanCopiesTest, GoesWarmWhereColdIsNotToBeHad) {
  const ReplayFigures tiny = {
      .weight_bytes = 50 << 10, .read_bytes = 50 << 10, .l2_bytes = kL2, .free_bytes = kPlenty, .nodes = 1};
  EXPECT_TRUE(plan_copies(tiny, {}).warm) << "3,073 nodes";
  EXPECT_EQ(plan_copies(tiny, {}).copies, 1);
  EXPECT_TRUE(plan_copies({1 << 20, 1 << 20, kL2, 10 << 20, 1}, {}).warm) << "no memory";
  EXPECT_TRUE(plan_copies({1 << 20, 1 << 20, kL2, kPlenty, 20}, {}).warm) << "3,020 nodes";
  EXPECT_TRUE(plan_copies({1 << 20, 1 << 20, kL2, kPlenty, 1}, {.cold_weights = false}).warm);
  EXPECT_TRUE(plan_copies({0, 0, kL2, kPlenty, 1}, {}).warm);
}

ReplayPlan launches_of(double launch_us, int copies, int nodes, const TimingPolicy& policy = {}) {
  return plan_launches(launch_us, {.copies = copies, .warm = false}, nodes, policy);
}

TEST(PlanLaunchesTest, ReplaysAreLongAndFitTheTime) {
  const TimingPolicy policy;
  EXPECT_GE(launches_of(2, 1, 1).launches * 2.0, 300);    // a short kernel: many launches
  EXPECT_EQ(launches_of(100, 1, 1).launches, 8);          // a longer one: a few of them
  EXPECT_LE(launches_of(0.01, 1, 3).launches * 3, 2000);  // within a graph's size
  for (const double us : {1.0, 10.0, 100.0, 1000.0, 10000.0, 1e6}) {
    for (const int copies : {1, 3, 31}) {
      const ReplayPlan plan = launches_of(us, copies, 1);
      EXPECT_GE(plan.copies, copies);
      EXPECT_EQ(plan.launches * plan.graphs % plan.copies, 0) << "each copy is read as often as the others";
      if (plan.launches <= copies) continue;
      EXPECT_LE((plan.launches - copies) * us * policy.min_replays, policy.max_milliseconds * 1000);
    }
  }
}

TEST(PlanLaunchesTest, ManyCopiesAreSharedOutToGraphsThatAreLongEnough) {
  for (const double us : {1.0, 2.5, 10.0, 100.0, 1000.0}) {
    for (const int copies : {64, 151, 700, 1999}) {
      const ReplayPlan plan = launches_of(us, copies, 1);
      SCOPED_TRACE(copies);
      EXPECT_GE(plan.copies, copies);
      EXPECT_LT(plan.copies, copies + plan.graphs);
      EXPECT_EQ(plan.launches * plan.graphs % plan.copies, 0);
      if (plan.graphs == 1) continue;
      EXPECT_GE(plan.launches, 8);
      EXPECT_GE(plan.launches * us, 300);
    }
  }
  EXPECT_EQ(launches_of(2, 1500, 1).graphs, 10);
  EXPECT_EQ(launches_of(1000, 1500, 1).graphs, 187);
  EXPECT_EQ(launches_of(1, 299, 1).graphs, 1);
}

TEST(FirstGraphTest, CasesStandAsFarApartAsGraphsAllow) {
  for (int graphs = 1; graphs <= 40; ++graphs) {
    for (int cases = 1; cases <= 12; ++cases) {
      for (int i = 0; i < cases; ++i) {
        const int here = first_graph(i, cases, graphs);
        const int next = first_graph((i + 1) % cases, cases, graphs);
        EXPECT_GE(here, 0);
        EXPECT_LT(here, graphs);
        if (cases == 1 || cases > graphs) continue;
        EXPECT_GE((next - here + graphs) % graphs, graphs / cases) << i << " of " << cases << " over " << graphs;
      }
    }
  }
  EXPECT_NE(first_graph(0, 3, 2), first_graph(1, 3, 2)) << "neighbours differ even where some have to share";
}

TEST(PlanLaunchesTest, AStackHasItsLayersAndACopyForEach) {
  const TimingPolicy stack{.layers = 64};
  const auto launches = [&](const ReplayFigures& figures) {
    const ReplayPlan plan = plan_launches(10, plan_copies(figures, stack), figures.nodes, stack);
    EXPECT_EQ(plan.graphs, 1);
    return plan.launches;
  };
  const ReplayFigures figures = {
      .weight_bytes = 40 << 20, .read_bytes = 40 << 20, .l2_bytes = kL2, .free_bytes = kPlenty, .nodes = 1};
  EXPECT_EQ(plan_copies(figures, stack).copies, 64);
  EXPECT_EQ(launches(figures), 64);
  const ReplayFigures small = {
      .weight_bytes = 1 << 20, .read_bytes = 1 << 20, .l2_bytes = kL2, .free_bytes = kPlenty, .nodes = 1};
  EXPECT_EQ(plan_copies(small, stack).copies, 151) << "fewer would stay in cache";
  EXPECT_EQ(launches(small), 151);
  const ReplayFigures tight = {
      .weight_bytes = 40 << 20, .read_bytes = 40 << 20, .l2_bytes = kL2, .free_bytes = 1 << 30, .nodes = 1};
  EXPECT_EQ(plan_copies(tight, stack).copies, 4) << "64 copies do not fit";
  EXPECT_EQ(launches(tight), 64);
}

TEST(IsHopelessTest, WhatTakesThreeTimesAsLong) {
  EXPECT_FALSE(is_hopeless(5, 5));
  EXPECT_FALSE(is_hopeless(14.9F, 5));
  EXPECT_TRUE(is_hopeless(15.1F, 5));
}

TEST(SummarizeTest, GivesMedianAndQuartiles) {
  const Timing timing = summarize({5, 1, 4, 2, 3}, {.copies = 4, .warm = false, .launches = 8});
  EXPECT_EQ(timing.median_us, 3);
  EXPECT_EQ(timing.q1_us, 2);
  EXPECT_EQ(timing.q3_us, 4);
  EXPECT_EQ(timing.copies, 4);
  EXPECT_EQ(timing.samples_us.front(), 5) << "samples stay in the order in which they were taken";
  EXPECT_EQ(summarize({1, 2}, {}).median_us, 1.5);
  EXPECT_EQ(summarize({7}, {}).q3_us, 7);
}

}  // namespace
}  // namespace sparsmith
