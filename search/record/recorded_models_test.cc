// The cost models of this version against spaces that a GPU measured (bench/recorded). The records hold predictions of
// earlier versions; here they are made again, of the same weights, which are drawn again from their specs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "matrix/synthesis.h"
#include "search/record/simulation.h"
#include "search/record/space_prediction.h"

namespace sparsmith {
namespace {

// As in docs/results/search.md: the seed is that of the file plus the weight's number in it.
struct RecordedWeight {
  const char* name;
  const char* shape;
  double sparsity;
  const char* pattern;
  std::uint64_t seed;
  DataType type = DataType::kFloat16;
};

constexpr RecordedWeight kWeights[] = {
    {"a80", "4096x4096", 0.8, "lognormal:0.3", 3},
    {"b70", "4096x14336", 0.7, "uniform", 4},
    {"f1", "512x2048", 0.8, "uniform", 10},
    {"f2", "1024x1024", 0.95, "lognormal:0.5", 11},
    {"g1", "4096x4096", 0.9, "uniform", 11},
    {"g2", "2048x5504", 0.7, "lognormal:0.5", 12},
    {"h1", "11008x4096", 0.95, "lognormal:0.5", 12},
    {"h2", "4096x4096", 0.5, "uniform", 13},
    {"i1", "4096x8192", 0.98, "power:1", 13},
    {"i2", "2048x4096", 0.6, "uniform", 14},
    {"j2", "8192x4096", 0.99, "uniform", 15, DataType::kFloat32},
    {"k2", "4096x4096", 0.97, "uniform", 16, DataType::kBFloat16},
    {"m1", "4096x4096", 0.8, "lognormal:0.5", 101},
    {"m2", "2048x8192", 0.9, "lognormal:1.0", 102},
    {"n1", "4096x4096", 0.5, "2:4", 105},
    {"n2", "1024x4096", 0.95, "lognormal:0.5", 106},
    {"o1", "8192x2048", 0.6, "uniform", 109},
    {"o2", "11008x4096", 0.7, "lognormal:0.5", 110},
    {"p1", "8192x4096", 0.7, "lognormal:0.5", 201},
    {"p2", "4096x11008", 0.9, "uniform", 202},
    {"p3", "4096x4096", 0.99, "power:1", 203},
    {"p4", "2560x2560", 0.9, "lognormal:0.5", 204},
    {"p5", "3072x3072", 0.85, "uniform", 205},
    {"p6", "5120x5120", 0.6, "lognormal:0.3", 206},
    {"p7", "6144x2048", 0.95, "lognormal:1.0", 207},
    {"p8", "4096x4096", 0.75, "uniform", 208},
};

CsrMatrix draw(const RecordedWeight& weight) {
  SynthesisSpec spec{.sparsity = weight.sparsity, .data_type = weight.type, .seed = weight.seed};
  EXPECT_TRUE(parse_shape(weight.shape, spec).ok());
  spec.pattern = parse_synthesis_pattern(weight.pattern).value();
  return synthesize(spec).value();
}

// The candidates of one family in one space that passed.
struct Ranked {
  std::vector<double> predicted;
  std::vector<double> measured;

  // Measured time of the best predicted one over that of the best; of those predicted alike the slowest counts.
  double regret() const {
    const double least = *std::ranges::min_element(predicted);
    double chosen = 0;
    for (std::size_t i = 0; i < predicted.size(); ++i)
      if (predicted[i] == least) chosen = std::max(chosen, measured[i]);
    return chosen / *std::ranges::min_element(measured);
  }

  // Spearman's rank correlation; 0 where all are predicted alike.
  double correlation() const {
    const std::vector<double> a = ranks(predicted);
    const std::vector<double> b = ranks(measured);
    const double mean = static_cast<double>(a.size() - 1) / 2;
    double product = 0;
    double squares_a = 0;
    double squares_b = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      product += (a[i] - mean) * (b[i] - mean);
      squares_a += (a[i] - mean) * (a[i] - mean);
      squares_b += (b[i] - mean) * (b[i] - mean);
    }
    return squares_a == 0 || squares_b == 0 ? 0 : product / std::sqrt(squares_a * squares_b);
  }

 private:
  // Equal values have the mean of their ranks.
  static std::vector<double> ranks(const std::vector<double>& values) {
    std::vector<double> sorted = values;
    std::ranges::sort(sorted);
    std::vector<double> found;
    for (const double value : values) {
      const auto [first, last] = std::ranges::equal_range(sorted, value);
      found.push_back(static_cast<double>(first - sorted.begin() + last - sorted.begin() - 1) / 2);
    }
    return found;
  }
};

// Over the spaces in which a family has candidates enough.
struct FamilyScore {
  int spaces = 0;
  double regret = 0;       // geometric mean
  double correlation = 0;  // mean
};

// The recorded spaces with this version's predictions.
void predict_all(std::vector<RecordedSpace>& spaces) {
  auto read = read_spaces(SPARSMITH_RECORDED "/h200-spaces.jsonl.gz");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  spaces = join_spaces(*std::move(read));
  std::size_t predicted = 0;
  for (const RecordedWeight& weight : kWeights) {
    const CsrMatrix matrix = draw(weight);
    const SparsityStatistics statistics = compute_statistics(matrix);
    const std::string pattern = matrix.pattern_hash();
    for (RecordedSpace& space : spaces) {
      if (space.weight != weight.name) continue;
      ASSERT_EQ(space.pattern_hash, pattern) << space.title() << ": another weight was recorded";
      const Status status = predict_again(space, statistics);
      ASSERT_TRUE(status.ok()) << status.to_string();
      ++predicted;
    }
  }
  ASSERT_EQ(predicted, spaces.size());
}

void expect_small_regret(const std::vector<RecordedSpace>& spaces) {
  double sum = 0;
  for (const RecordedSpace& space : spaces) {
    const double regret = predicted_choice_us(space) / best_us(space);
    fmt::print("{:28} {:.3f}\n", space.title(), regret);
    EXPECT_LE(regret, 1.5) << space.title();
    sum += std::log(regret);
  }
  const double mean = std::exp(sum / static_cast<double>(spaces.size()));
  fmt::print("geometric mean {:.3f}\n", mean);
  EXPECT_LE(mean, 1.1);
}

void expect_ranked_families(const std::vector<RecordedSpace>& spaces) {
  constexpr std::size_t kEnough = 8;  // candidates
  std::map<std::string, FamilyScore> scores;
  for (const RecordedSpace& space : spaces) {
    std::map<std::string, Ranked> families;
    for (const RecordedCandidate& candidate : space.candidates) {
      if (!candidate.ok()) continue;
      Ranked& ranked = families[candidate.config.family];
      ranked.predicted.push_back(candidate.predicted_us);
      ranked.measured.push_back(candidate.median_us());
    }
    for (const auto& [name, ranked] : families) {
      if (ranked.predicted.size() < kEnough) continue;
      FamilyScore& score = scores[name];
      ++score.spaces;
      score.regret += std::log(ranked.regret());
      score.correlation += ranked.correlation();
    }
  }
  struct Bound {
    double regret;
    double correlation;
  };
  // A little more, and a little less, than today's models have.
  const std::map<std::string, Bound> bounds = {
      {"bitmap", {1.05, 0.77}}, {"bsr", {1.15, 0.55}},         {"gather", {1.17, 0.70}},
      {"panel", {1.06, 0.87}},  {"rows", {1.22, 0.76}},        {"scatter", {1.13, 0.70}},
      {"slots", {1.27, 0.63}},  {"specialized", {1.17, 0.70}}, {"wgmma", {1.05, 0.83}},
  };
  for (auto& [name, score] : scores) {
    score.regret = std::exp(score.regret / score.spaces);
    score.correlation /= score.spaces;
    fmt::print("{:12} {:2} spaces, regret {:.3f}, rank correlation {:.2f}\n", name, score.spaces, score.regret,
               score.correlation);
  }
  for (const auto& [name, bound] : bounds) {
    ASSERT_TRUE(scores.contains(name)) << name;
    EXPECT_LE(scores[name].regret, bound.regret) << name;
    EXPECT_GE(scores[name].correlation, bound.correlation) << name;
  }
}

// One test, since the weights take seconds to draw.
TEST(RecordedModelsTest, PredictWhatAGpuMeasured) {
  std::vector<RecordedSpace> spaces;
  ASSERT_NO_FATAL_FAILURE(predict_all(spaces));
  expect_small_regret(spaces);
  expect_ranked_families(spaces);
}

}  // namespace
}  // namespace sparsmith
