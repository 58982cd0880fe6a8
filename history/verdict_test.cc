#include "history/verdict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "history/drawn_times.h"
#include "history/suite.h"

namespace sparsmith {
namespace {

// Base and head in turns, round by round, on one machine whose noise goes on: the first of each pair changes, so that
// a drift favours neither.
void draw_rounds(DrawnNoise& noise, double step, std::vector<double>& base, std::vector<double>& head) {
  for (int round = 0; round < kDefaultRounds; ++round) {
    for (int turn = 0; turn < 2; ++turn) {
      const bool is_head = (turn == 1) != (round % 2 == 1);
      const std::vector<float> samples = noise.samples(is_head ? 20 * (1 + step) : 20, kDefaultRepetitions);
      (is_head ? head : base).push_back(trimmed_mean(samples));
    }
  }
}

Judgement judge_drawn(DrawnNoise& noise, double step) {
  RoundTimes base;
  RoundTimes head;
  draw_rounds(noise, step, base.first, head.first);
  draw_rounds(noise, step, base.again, head.again);
  return judge(base, head, {});
}

constexpr Noise kNoises[] = {Noise::kIndependent, Noise::kAutocorrelated, Noise::kBimodal};

// Shares of SLOW, over drawn comparisons at the default number of samples; at a step of 0, of FAST as well. The table
// is in docs/performance_history.md.
TEST(Verdict, DetectionTable) {
  constexpr int kTrials = 1000;
  constexpr std::uint64_t kSeed = 20;
  const std::vector<double> steps = {0, 0.01, 0.02, 0.05, 0.1};
  fmt::print(
      "Share of comparisons called SLOW (at 0 %: SLOW or FAST), {} rounds of {} samples a side, measured again "
      "once; {} trials, seed {}\n{:<12} {:>6}",
      kDefaultRounds, kDefaultRepetitions, kTrials, kSeed, "noise", "CV");
  for (const double step : steps) fmt::print(" {:>7.0f} %", 100 * step);
  fmt::print("\n");
  std::map<std::tuple<Noise, double, double>, double> found;
  for (const Noise noise : kNoises) {
    for (const double cv : {0.003, 0.01, 0.03}) {
      fmt::print("{:<12} {:>4.1f} %", noise_name(noise), 100 * cv);
      for (const double step : steps) {
        DrawnNoise drawn(noise, cv, kSeed + static_cast<std::uint64_t>(1e5 * cv + 1e7 * step));
        int hits = 0;
        for (int trial = 0; trial < kTrials; ++trial) {
          const Verdict verdict = judge_drawn(drawn, step).verdict;
          if (verdict == Verdict::kSlow || (step == 0 && verdict == Verdict::kFast)) ++hits;
        }
        const double share = static_cast<double>(hits) / kTrials;
        found[{noise, cv, step}] = share;
        fmt::print(" {:>7.1f} %", 100 * share);
      }
      fmt::print("\n");
    }
  }
  for (const Noise noise : kNoises) {
    SCOPED_TRACE(noise_name(noise));
    for (const double cv : {0.003, 0.01, 0.03}) {
      EXPECT_LE((found[{noise, cv, 0}]), 0.01) << cv;
      EXPECT_GE((found[{noise, cv, 0.1}]), 0.99) << cv;
    }
    for (const double cv : {0.003, 0.01}) {
      EXPECT_GE((found[{noise, cv, 0.05}]), 0.99) << cv;
      EXPECT_GE((found[{noise, cv, 0.02}]), 0.90) << cv;
    }
  }
  // At a CV of 3 % this many samples find a step of 5 % less often, where they depend on each other.
  EXPECT_GE((found[{Noise::kIndependent, 0.03, 0.05}]), 0.99);
  EXPECT_GE((found[{Noise::kIndependent, 0.03, 0.02}]), 0.90);
  EXPECT_GE((found[{Noise::kAutocorrelated, 0.03, 0.05}]), 0.92);
  EXPECT_GE((found[{Noise::kBimodal, 0.03, 0.05}]), 0.60);
}

// Equal code is mostly known to be the same, not merely not known to be slower.
TEST(Verdict, QuietTimesAreTheSame) {
  DrawnNoise noise(Noise::kIndependent, 0.01, 3);
  int same = 0;
  for (int trial = 0; trial < 200; ++trial) same += judge_drawn(noise, 0).verdict == Verdict::kSame ? 1 : 0;
  EXPECT_GE(same, 190);
}

std::vector<double> around(double center) {
  std::vector<double> values;
  for (int i = -5; i <= 5; ++i) values.push_back(center * (1 + 0.0005 * i));
  return values;
}

TEST(Verdict, SlowIsSaidOnceItIsConfirmed) {
  RoundTimes base{around(100), {}};
  RoundTimes head{around(105), {}};
  const Judgement once = judge(base, head, {});
  EXPECT_EQ(once.verdict, Verdict::kAmbiguous);
  EXPECT_TRUE(once.suspected);
  EXPECT_EQ(once.reason, "5.0 % slower, not yet measured again");

  base.again = around(100);
  head.again = around(104);
  const Judgement twice = judge(base, head, {});
  EXPECT_EQ(twice.verdict, Verdict::kSlow);
  EXPECT_FALSE(twice.suspected);
  EXPECT_EQ(twice.reason, "5.0 % slower, and 4.0 % when measured again");

  head.again = around(100);
  const Judgement refuted = judge(base, head, {});
  EXPECT_EQ(refuted.verdict, Verdict::kAmbiguous);
  EXPECT_FALSE(refuted.suspected);
  EXPECT_EQ(judge(base, head, {.confirm = false}).verdict, Verdict::kSlow);
}

TEST(Verdict, FastIsSymmetric) {
  EXPECT_EQ(compare_rounds(around(105), around(100), {}).verdict, Verdict::kFast);
  EXPECT_EQ(judge({around(105), around(105)}, {around(100), around(100)}, {}).verdict, Verdict::kFast);
}

TEST(Verdict, SmallOrNoisyChangesAreNotSlow) {
  EXPECT_EQ(compare_rounds(around(100), around(100.9), {}).verdict, Verdict::kSame);
  EXPECT_EQ(compare_rounds(around(100), around(101.1), {}).verdict, Verdict::kSlow);
  std::vector<double> noisy = {80, 90, 95, 100, 105, 110, 130};
  EXPECT_EQ(compare_rounds(noisy, noisy, {}).verdict, Verdict::kAmbiguous);
}

TEST(Verdict, FewRoundsTellNothing) {
  const std::vector<double> base = {100, 100, 100, 100, 100};
  const std::vector<double> head = {200, 200, 200, 200, 200};
  const Finding finding = compare_rounds(base, head, {});
  EXPECT_EQ(finding.verdict, Verdict::kAmbiguous);
  EXPECT_EQ(finding.reason, "5 rounds a side are too few to tell; at least 6 are needed");
}

}  // namespace
}  // namespace sparsmith
