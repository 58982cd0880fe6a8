#include "history/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_directory.h"
#include "history/series.h"
#include "tests/support/drawn_times.h"

namespace sparsmith {
namespace {

using testing::ElementsAre;

Implementation rows_kernel() {
  Implementation result{"rows", "rows threads=128 width=4", "csr_u16", "p0", 1000, "plan0", {}};
  result.kernels.push_back({"rows_k1", "c0", 40, 0, {{"a.cuh", "1"}, {"b.cuh", "1"}}});
  return result;
}

TEST(Difference, CausesAreToldApart) {
  const Implementation base = rows_kernel();
  EXPECT_EQ(cause_of(base, base), Cause::kNone);
  Implementation head = base;
  head.plan_hash = "plan1";
  EXPECT_EQ(cause_of(base, head), Cause::kLaunchPlan);
  head.packing_hash = "p1";
  EXPECT_EQ(cause_of(base, head), Cause::kPacking);
  head.kernels[0].cubin_hash = "c1";
  EXPECT_EQ(cause_of(base, head), Cause::kKernel);
  head.config = "rows threads=256 width=4";
  EXPECT_EQ(cause_of(base, head), Cause::kOtherChoice);
  Implementation library{"dense", "dense", "dense", "p", 0, "", {}};
  EXPECT_EQ(cause_of(base, library), Cause::kOtherChoice);
  EXPECT_EQ(cause_of(library, library), Cause::kUnknown);  // nobody knows what it ran
}

TEST(Difference, WhatDiffersIsNamed) {
  const Implementation base = rows_kernel();
  Implementation head = base;
  head.config = "rows threads=256 width=4 depth=2";
  head.kernels[0].registers = 64;
  head.kernels[0].snippets = {{"a.cuh", "1"}, {"b.cuh", "2"}, {"c.cuh", "1"}};
  std::vector<std::string> lines;
  for (const Difference& d : differences(base, head)) lines.push_back(d.what + ": " + d.base + " -> " + d.head);
  EXPECT_THAT(lines, ElementsAre("depth: - -> 2", "threads: 128 -> 256", "registers: 40 -> 64"));
  EXPECT_THAT(changed_snippets(base, head), ElementsAre("b.cuh", "c.cuh"));
  EXPECT_TRUE(differences(base, base).empty());

  head = base;
  head.kernels.push_back({"rows_k2", "c1", 8, 0, {}});  // on one side alone, whichever it is
  lines.clear();
  for (const Difference& d : differences(base, head)) lines.push_back(d.what + ": " + d.base + " -> " + d.head);
  EXPECT_THAT(lines, testing::Contains("kernel 2:  -> rows_k2"));
  lines.clear();
  for (const Difference& d : differences(head, base)) lines.push_back(d.what + ": " + d.base + " -> " + d.head);
  EXPECT_THAT(lines, testing::Contains("kernel 2: rows_k2 -> "));
}

class ComparisonTest : public testing::Test {
 protected:
  struct Rounds {
    std::string commit;
    double us = 20;
    std::string cubin = "c0";
    std::string session{};
    bool again = false;
    std::string driver = "570";
    std::string name = "fc1 N=1";
    int count = 15;
  };
  void record(const Rounds& rounds) {
    PerfRun run;
    run.commit = rounds.commit;
    run.committed_at = "2026-01-01T00:00:" + std::to_string(10 + second_++) + "Z";
    run.session = rounds.session;
    run.again = rounds.again;
    run.environment = {"NVIDIA H200", rounds.driver, "13.0", ""};
    std::vector<PerfMeasurement> measurements;
    for (int i = 0; i < rounds.count; ++i) {
      PerfMeasurement m{{rounds.name, "op", "w", "sm_90", "cold"}, rows_kernel(), "cmd", noise_.samples(rounds.us, 15)};
      m.implementation.kernels[0].cubin_hash = rounds.cubin;
      measurements.push_back(std::move(m));
    }
    ASSERT_TRUE(store_.record(run, measurements).ok());
  }
  Comparison compared(const std::string& base, const std::string& head) {
    return compare(store_, base, head, {}).value();
  }

  TemporaryDirectory folder_;
  PerfStore store_ = PerfStore::open(folder_.file("perf.db"), PerfStore::Mode::kReadWrite).value();
  DrawnNoise noise_{Noise::kIndependent, 0.003, 1};
  int second_ = 0;
};

TEST_F(ComparisonTest, TheSameCodeIsSameHoweverItWasMeasured) {
  record({.commit = "c1"});
  record({.commit = "c2", .us = 22});
  const Comparison comparison = compared("c1", "c2");
  ASSERT_EQ(comparison.rows.size(), 1U);
  EXPECT_EQ(comparison.rows[0].verdict, Verdict::kSame);
  EXPECT_EQ(comparison.rows[0].cause, Cause::kNone);
  EXPECT_EQ(comparison.unchanged_measured, 1);
  EXPECT_EQ(comparison.unchanged_alarms, 1);  // and the noise of the machine is known to be large
}

TEST_F(ComparisonTest, RowsThatMatterComeFirst) {
  for (const char* name : {"a same", "b elsewhere", "c faster", "d suspected", "e slower"})
    record({.commit = "c1", .name = name});
  record({.commit = "c2", .name = "a same"});
  record({.commit = "c2", .driver = "580", .name = "b elsewhere"});
  record({.commit = "c2", .us = 15, .cubin = "c1", .name = "c faster"});
  record({.commit = "c2", .us = 23, .cubin = "c1", .name = "d suspected"});
  record({.commit = "c2", .us = 22, .cubin = "c1", .name = "e slower"});
  for (const auto& [name, us] : {std::pair("c faster", 15.0), std::pair("e slower", 22.0)}) {
    record({.commit = "c1", .again = true, .name = name});
    record({.commit = "c2", .us = us, .cubin = "c1", .again = true, .name = name});
  }
  std::vector<std::string> names;
  for (const ComparisonRow& row : compared("c1", "c2").rows) names.push_back(row.key.name);
  EXPECT_THAT(names, ElementsAre("e slower", "d suspected", "c faster", "b elsewhere", "a same"));
}

// As of a benchmark with many repetitions, each of which is a round.
TEST_F(ComparisonTest, ManyRoundsAreBatched) {
  for (const char* commit : {"c1", "c2"}) {
    PerfRun run;
    run.commit = commit;
    std::vector<PerfMeasurement> measurements;
    for (int i = 0; i < 20'000; ++i)
      measurements.push_back({{"fc1 N=1", "op", "w", "sm_90", "cold"}, {}, "cmd", noise_.samples(20, 1)});
    ASSERT_TRUE(store_.record(run, measurements).ok());
  }
  const ComparisonRow row = compared("c1", "c2").rows[0];
  EXPECT_EQ(row.verdict, Verdict::kSame);
  EXPECT_EQ(row.base_rounds, 20'000);
  EXPECT_NEAR(row.first.base.center, 20, 0.01);
}

TEST_F(ComparisonTest, RoundsInTurnsArePairs) {
  for (int turn = 0; turn < 12; ++turn) {  // each side goes first every second time
    const double machine = turn % 6 < 3 ? 20 : 24;
    for (const bool head : {turn % 2 == 1, turn % 2 == 0}) {
      record({.commit = head ? "c2" : "c1",
              .us = head ? 1.05 * machine : machine,
              .cubin = head ? "c1" : "c0",
              .count = 1});
      if (turn == 5) record({.commit = "c3", .count = 1});  // what else is measured does not part them
    }
  }
  const ComparisonRow row = compared("c1", "c2").rows[0];
  EXPECT_TRUE(row.suspected) << row.reason;
  EXPECT_TRUE(row.first.paired);
  ASSERT_EQ(row.first_times.pairs.size(), 12U);
  for (const TimePair& pair : row.first_times.pairs) EXPECT_NEAR(pair.head / pair.base, 1.05, 0.01);
}

TEST_F(ComparisonTest, ManyRoundsInARowAreNoPairs) {
  for (int turn = 0; turn < 3; ++turn) {
    record({.commit = "c1", .count = 5});
    record({.commit = "c2", .us = 21, .cubin = "c1", .count = 5});
  }
  const ComparisonRow row = compared("c1", "c2").rows[0];
  EXPECT_TRUE(row.suspected);
  EXPECT_TRUE(row.first_times.pairs.empty());
  EXPECT_FALSE(row.first.paired);
}

TEST_F(ComparisonTest, SharedSessionsAreComparedAlone) {
  record({.commit = "c1", .us = 10, .session = "last week"});
  record({.commit = "c1", .session = "today"});
  record({.commit = "c2", .cubin = "c1", .session = "today"});
  const ComparisonRow row = compared("c1", "c2").rows[0];
  EXPECT_EQ(row.verdict, Verdict::kSame);
  EXPECT_EQ(row.base_rounds, 15);
}

TEST_F(ComparisonTest, AnotherEnvironmentIsNotCompared) {
  record({.commit = "c1"});
  record({.commit = "c2", .us = 30, .cubin = "c1", .driver = "580"});
  const ComparisonRow row = compared("c1", "c2").rows[0];
  EXPECT_EQ(row.verdict, Verdict::kAmbiguous);
  EXPECT_EQ(row.cause, Cause::kEnvironment);
  EXPECT_FALSE(row.measured);
  // Until base is measured there too.
  record({.commit = "c1", .driver = "580"});
  EXPECT_TRUE(compared("c1", "c2").rows[0].suspected);
}

TEST_F(ComparisonTest, MarksBetweenTheCommitsAccept) {
  record({.commit = "c1"});
  record({.commit = "c2", .us = 22, .cubin = "c1"});
  record({.commit = "c3", .us = 22, .cubin = "c2"});
  ASSERT_TRUE(store_.mark({"c2", "", "worth it", "", ""}).ok());
  EXPECT_TRUE(compared("c1", "c3").rows[0].accepted.has_value());
  ASSERT_TRUE(store_.mark({"c1", "", "earlier", "", ""}).ok());
  EXPECT_EQ(compared("c1", "c3").rows[0].accepted->reason, "worth it");
  record({.commit = "c4", .us = 25, .cubin = "c3"});
  EXPECT_FALSE(compared("c3", "c4").rows[0].accepted.has_value());
}

TEST_F(ComparisonTest, CasesOfOneSideAreListed) {
  record({.commit = "c1"});
  record({.commit = "c1", .name = "old N=1"});
  record({.commit = "c2"});
  record({.commit = "c2", .name = "new N=1"});
  const Comparison comparison = compared("c1", "c2");
  ASSERT_EQ(comparison.only_base.size(), 1U);
  EXPECT_EQ(comparison.only_base[0].name, "old N=1");
  ASSERT_EQ(comparison.only_head.size(), 1U);
  EXPECT_EQ(comparison.only_head[0].name, "new N=1");
  EXPECT_EQ(compare(store_, "c1", "c9", {}).status().code(), StatusCode::kNotFound);
}

TEST_F(ComparisonTest, SeriesChangeAndBeginAnew) {
  for (int i = 0; i < 10; ++i) record({.commit = "a" + std::to_string(i)});
  for (int i = 0; i < 10; ++i) record({.commit = "b" + std::to_string(i), .us = 21});
  for (int i = 0; i < 10; ++i) record({.commit = "d" + std::to_string(i), .us = 30, .driver = "580"});
  ASSERT_TRUE(store_.mark({"b0", "fc1 N=1", "known", "", ""}).ok());
  const auto series = load_series(store_, {});
  ASSERT_TRUE(series.ok());
  ASSERT_EQ(series->size(), 1U);
  const PerfSeries& one = series->front();
  EXPECT_EQ(one.points.size(), 30U);
  ASSERT_EQ(one.segments.size(), 2U);
  EXPECT_EQ(one.segments[1].first, 20U);
  ASSERT_EQ(one.changes.size(), 1U);  // the other driver is no change
  EXPECT_EQ(one.changes[0].point.index, 10U);
  EXPECT_EQ(one.changes[0].accepted->reason, "known");
}

}  // namespace
}  // namespace sparsmith
