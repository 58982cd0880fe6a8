#include "history/verdict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/support/drawn_times.h"
#include "tests/support/measured_turns.h"

namespace sparsmith {
namespace {

// On one machine whose noise goes on.
Measured measure_drawn(DrawnNoise& noise, double step, bool more) {
  return measure_in_turns(
      [&](bool is_head) { return trimmed_mean(noise.samples(is_head ? 20 * (1 + step) : 20, kDefaultRepetitions)); },
      more);
}

constexpr Noise kNoises[] = {Noise::kIndependent, Noise::kAutocorrelated, Noise::kBimodal};

// What comparisons find: shares of SLOW, at a step of 0 of FAST as well, by noise, its CV and the step.
struct Detection {
  std::map<std::tuple<Noise, double, double>, double> found;
  std::map<std::tuple<Noise, double>, double> rounds;  // a side, on average over steps of 0 and 2 %
};

Detection detect(bool more) {
  constexpr int kTrials = 1000;
  constexpr std::uint64_t kSeed = 20;
  const std::vector<double> steps = {0, 0.01, 0.02, 0.05, 0.1};
  fmt::print(
      "Share of comparisons called SLOW (at 0 %: SLOW or FAST), {} rounds of {} samples a side in turns, as many "
      "again for what is suspected{}; {} trials, seed {}\n{:<12} {:>6}",
      kDefaultRounds, kDefaultRepetitions, more ? ", more where noise hides a change" : "", kTrials, kSeed, "noise",
      "CV");
  for (const double step : steps) fmt::print(" {:>7.0f} %", 100 * step);
  fmt::print("    rounds\n");
  Detection detection;
  for (const Noise noise : kNoises) {
    for (const double cv : {0.003, 0.01, 0.03}) {
      fmt::print("{:<12} {:>4.1f} %", noise_name(noise), 100 * cv);
      double& rounds = detection.rounds[{noise, cv}];
      for (const double step : steps) {
        DrawnNoise drawn(noise, cv, kSeed + static_cast<std::uint64_t>(1e5 * cv + 1e7 * step));
        int hits = 0;
        for (int trial = 0; trial < kTrials; ++trial) {
          const Measured measured = measure_drawn(drawn, step, more);
          const Verdict verdict = measured.judgement.verdict;
          if (verdict == Verdict::kSlow || (step == 0 && verdict == Verdict::kFast)) ++hits;
          if (step == 0 || step == 0.02) rounds += measured.rounds / (2.0 * kTrials);
        }
        const double share = static_cast<double>(hits) / kTrials;
        detection.found[{noise, cv, step}] = share;
        fmt::print(" {:>7.1f} %", 100 * share);
      }
      fmt::print(" {:>9.1f}\n", rounds);
    }
  }
  return detection;
}

// Both tables are in docs/guide/performance_history.md.
TEST(Verdict, DetectionAtTheDefaultRounds) {
  const auto found = detect(false).found;
  for (const Noise noise : kNoises) {
    SCOPED_TRACE(noise_name(noise));
    for (const double cv : {0.003, 0.01, 0.03}) {
      EXPECT_LE(found.at({noise, cv, 0}), 0.01) << cv;
      EXPECT_GE(found.at({noise, cv, 0.05}), 0.99) << cv;
      EXPECT_GE(found.at({noise, cv, 0.1}), 0.99) << cv;
    }
    for (const double cv : {0.003, 0.01}) EXPECT_GE(found.at({noise, cv, 0.02}), 0.90) << cv;
  }
}

TEST(Verdict, DetectionWithTheRoundsThatNoiseAsksFor) {
  const Detection detection = detect(true);
  for (const Noise noise : kNoises) {
    SCOPED_TRACE(noise_name(noise));
    for (const double cv : {0.003, 0.01, 0.03}) {
      EXPECT_LE(detection.found.at({noise, cv, 0}), 0.01) << cv;
      EXPECT_GE(detection.found.at({noise, cv, 0.02}), 0.90) << cv;
      EXPECT_GE(detection.found.at({noise, cv, 0.05}), 0.99) << cv;
      EXPECT_GE(detection.found.at({noise, cv, 0.1}), 0.99) << cv;
    }
    EXPECT_LE(detection.rounds.at({noise, 0.003}), 30.5) << "quiet times need no more";
    EXPECT_LE(detection.rounds.at({noise, 0.03}), 120);
  }
}

// Equal code is mostly known to be the same, not merely not known to be slower.
TEST(Verdict, QuietTimesAreTheSame) {
  DrawnNoise noise(Noise::kIndependent, 0.01, 3);
  int same = 0;
  for (int trial = 0; trial < 200; ++trial)
    same += measure_drawn(noise, 0, false).judgement.verdict == Verdict::kSame ? 1 : 0;
  EXPECT_GE(same, 190);
}

std::vector<double> around(double center) {
  std::vector<double> values;
  for (int i = -5; i <= 5; ++i) values.push_back(center * (1 + 0.0005 * i));
  return values;
}

TimeSet sides(double base, double head) { return {around(base), around(head), {}}; }

TEST(Verdict, SlowIsSaidOnceItIsConfirmed) {
  const Judgement once = judge(sides(100, 105), {}, {});
  EXPECT_EQ(once.verdict, Verdict::kAmbiguous);
  EXPECT_TRUE(once.suspected);
  EXPECT_EQ(once.reason, "5.0 % slower, not yet measured again");

  const Judgement twice = judge(sides(100, 105), sides(100, 104), {});
  EXPECT_EQ(twice.verdict, Verdict::kSlow);
  EXPECT_FALSE(twice.suspected);
  EXPECT_EQ(twice.reason, "5.0 % slower, and 4.0 % when measured again");

  const Judgement refuted = judge(sides(100, 105), sides(100, 100), {});
  EXPECT_EQ(refuted.verdict, Verdict::kAmbiguous);
  EXPECT_FALSE(refuted.suspected);
  EXPECT_EQ(judge(sides(100, 105), sides(100, 100), {.confirm = false}).verdict, Verdict::kSlow);
}

TEST(Verdict, ARefutationTakesAsManyRoundsAsTheSuspicion) {
  TimeSet few = sides(100, 100);
  few.base.resize(8);
  few.head.resize(8);
  const Judgement judgement = judge(sides(100, 105), few, {});
  EXPECT_EQ(judgement.verdict, Verdict::kAmbiguous);
  EXPECT_TRUE(judgement.suspected);
  EXPECT_NE(judgement.reason.find("3 more rounds will tell"), std::string::npos) << judgement.reason;
}

TEST(Verdict, FastIsSymmetric) {
  EXPECT_EQ(compare_rounds(sides(105, 100), {}).verdict, Verdict::kFast);
  EXPECT_EQ(judge(sides(105, 100), sides(105, 100), {}).verdict, Verdict::kFast);
  // The least changes that count, and their reversals: 1.005 % slower, 0.995 % faster.
  EXPECT_EQ(compare_rounds(sides(100, 101.005), {}).verdict, Verdict::kSlow);
  EXPECT_EQ(compare_rounds(sides(101.005, 100), {}).verdict, Verdict::kFast);
}

TEST(Verdict, SmallOrNoisyChangesAreNotSlow) {
  EXPECT_EQ(compare_rounds(sides(100, 100.9), {}).verdict, Verdict::kSame);
  EXPECT_EQ(compare_rounds(sides(100, 101.1), {}).verdict, Verdict::kSlow);
  const std::vector<double> noisy = {80, 90, 95, 100, 105, 110, 130};
  const Finding hidden = compare_rounds({noisy, noisy, {}}, {});
  EXPECT_EQ(hidden.verdict, Verdict::kAmbiguous);
  EXPECT_EQ(hidden.more_rounds, VerdictRules().most_rounds - 7);
}

// What lasts over a pair meets both sides: the machine is 20 % slower half of the time, head always 3 %.
TEST(Verdict, PairsSeeThroughWhatLasts) {
  TimeSet times;
  for (int i = 0; i < 12; ++i) {
    const double machine = i % 4 < 2 ? 100 : 120;
    times.base.push_back(machine * (1 + 0.0003 * i));
    times.head.push_back(machine * (1.03 + 0.0002 * ((7 * i) % 12)));
    times.pairs.push_back({times.base.back(), times.head.back()});
  }
  const Finding paired = compare_rounds(times, {});
  EXPECT_EQ(paired.verdict, Verdict::kSlow);
  EXPECT_TRUE(paired.paired);
  EXPECT_EQ(paired.more_rounds, 0);
  times.pairs.resize(7);  // too few: whichever way they all point, chance does so in 2 of 128 cases
  const Finding unpaired = compare_rounds(times, {});
  EXPECT_FALSE(unpaired.paired);
  EXPECT_EQ(unpaired.verdict, Verdict::kAmbiguous);
}

TEST(Verdict, FewRoundsTellNothing) {
  const Finding finding = compare_rounds({{100, 100, 100, 100, 100}, {200, 200, 200, 200, 200}, {}}, {});
  EXPECT_EQ(finding.verdict, Verdict::kAmbiguous);
  EXPECT_EQ(finding.reason, "5 rounds a side are too few to tell; at least 6 are needed");
}

}  // namespace
}  // namespace sparsmith
