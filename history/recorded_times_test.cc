// What comparisons find in times that a GPU has made.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/measured_turns.h"

namespace sparsmith {
namespace {

// Rounds of cases that ran the same code each time, in the order of time.
using Recorded = std::map<std::string, std::vector<std::vector<float>>>;

Recorded read_recorded() {
  std::ifstream file(SPARSMITH_SOURCE_DIR "/bench/recorded/h200-rounds.csv");
  Recorded recorded;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream cells(line);
    std::string name;
    std::getline(cells, name, ',');
    std::vector<float>& samples = recorded[name].emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) samples.push_back(std::stof(cell));
  }
  return recorded;
}

// Goes on through a case's rounds, a block of neighbours here and one there, so that what lasts over a few rounds does
// so here (moving blocks: Künsch, The Jackknife and the Bootstrap for General Stationary Observations, 1989).
class RoundSource {
 public:
  RoundSource(const std::vector<std::vector<float>>& rounds, double step, std::mt19937_64& random)
      : rounds_(rounds), step_(step), random_(random) {}

  double operator()(bool is_head) const {
    if (left_ == 0) {
      left_ = kBlock;
      at_ = random_() % (rounds_.size() - kBlock + 1);
    }
    --left_;
    return trimmed_mean(rounds_[at_++]) * (is_head ? 1 + step_ : 1);
  }

 private:
  static constexpr std::size_t kBlock = 4;

  const std::vector<std::vector<float>>& rounds_;
  double step_;
  std::mt19937_64& random_;
  mutable std::size_t at_ = 0;
  mutable std::size_t left_ = 0;
};

TEST(RecordedTimes, StepsAreFoundInWhatAnH200Measured) {
  constexpr int kTrials = 100;  // of each case
  constexpr std::uint64_t kSeed = 23;
  const Recorded recorded = read_recorded();
  ASSERT_EQ(recorded.size(), 18U);
  std::mt19937_64 random(kSeed);
  fmt::print("Share of comparisons called SLOW (at 0 %: SLOW or FAST), 18 cases of an H200, {} trials each, seed {}\n",
             kTrials, kSeed);
  std::map<double, double> found;
  double rounds = 0;
  for (const double step : {0.0, 0.01, 0.02, 0.05, 0.1}) {
    double worst = 1;
    std::string worst_case;
    for (const auto& [name, series] : recorded) {
      ASSERT_GE(series.size(), 20U) << name;
      int hits = 0;
      for (int trial = 0; trial < kTrials; ++trial) {
        const Measured measured = measure_in_turns(RoundSource(series, step, random), true);
        const Verdict verdict = measured.judgement.verdict;
        hits += verdict == Verdict::kSlow || (step == 0 && verdict == Verdict::kFast) ? 1 : 0;
        if (step == 0) rounds += measured.rounds / (18.0 * kTrials);
      }
      const double share = static_cast<double>(hits) / kTrials;
      found[step] += share / 18;
      if (const double quality = step == 0 ? 1 - share : share; quality < worst) {
        worst = quality;
        worst_case = fmt::format("{} {:.0f} %", name, 100 * share);
      }
    }
    fmt::print("{:>4.0f} %: {:.1f} %{}\n", 100 * step, 100 * found[step],
               worst_case.empty() ? "" : ", at worst " + worst_case);
  }
  fmt::print("{:.1f} rounds a side where nothing changed\n", rounds);
  EXPECT_LE(found[0], 0.01);
  EXPECT_GE(found[0.02], 0.90);
  EXPECT_GE(found[0.05], 0.99);
  EXPECT_GE(found[0.1], 0.99);
}

}  // namespace
}  // namespace sparsmith
