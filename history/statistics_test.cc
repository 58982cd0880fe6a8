#include "history/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace sparsmith {
namespace {

TEST(Statistics, MedianAndQuantiles) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
  EXPECT_EQ(quantile(std::vector<double>{1, 2, 3, 4, 5}, 0.25), 2);
  EXPECT_EQ(quantile(std::vector<double>{1, 2}, 1), 2);
  EXPECT_EQ(quantile(std::vector<double>{7}, 0.5), 7);
}

TEST(Statistics, ASpikeDoesNotMoveATrimmedMean) {
  EXPECT_FLOAT_EQ(static_cast<float>(trimmed_mean(std::vector<float>{1, 2, 3, 4, 1000})), 3);
  EXPECT_FLOAT_EQ(static_cast<float>(trimmed_mean(std::vector<float>{5})), 5);
}

TEST(Statistics, HodgesLehmannIsTheMedianOfPairwiseMeans) {
  const Estimate small = hodges_lehmann(std::vector<double>{1, 2, 6});  // 1 1.5 2 3.5 4 6
  EXPECT_EQ(small.center, 2.75);
  EXPECT_EQ(small.low, 1);
  EXPECT_EQ(small.high, 6);
  // Of 1 .. 15: ranks 25 and 96 of 120 pairwise means.
  std::vector<double> values;
  for (int i = 1; i <= 15; ++i) values.push_back(i);
  const Estimate estimate = hodges_lehmann(values);
  EXPECT_EQ(estimate.center, 8);
  EXPECT_EQ(estimate.low, 5);
  EXPECT_EQ(estimate.high, 11);
}

// The interval holds the truth about as often as it says.
TEST(Statistics, HodgesLehmannCovers) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  int covered = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 15; ++i) values.push_back(normal(random));
    const Estimate estimate = hodges_lehmann(values);
    if (estimate.low <= 0 && 0 <= estimate.high) ++covered;
  }
  EXPECT_GT(covered, 0.94 * kTrials);
  EXPECT_LT(covered, 0.97 * kTrials);
}

// P(U <= u) by going through every way of choosing a's ranks.
double enumerated_p(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all(a);
  all.insert(all.end(), b.begin(), b.end());
  const auto u_of = [&](unsigned chosen) {
    double u = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < all.size(); ++j) {
        if ((chosen >> i & 1U) != 0 && (chosen >> j & 1U) == 0 && all[i] > all[j]) ++u;
      }
    }
    const auto pairs = static_cast<double>(a.size() * b.size());
    return std::min(u, pairs - u);
  };
  const double observed = u_of((1U << a.size()) - 1);
  int as_far = 0;
  int ways = 0;
  for (unsigned chosen = 0; chosen < 1U << all.size(); ++chosen) {
    if (static_cast<std::size_t>(__builtin_popcount(chosen)) != a.size()) continue;
    ++ways;
    if (u_of(chosen) <= observed) ++as_far;
  }
  return static_cast<double>(as_far) / ways;
}

TEST(Statistics, MannWhitneyIsExactForFewValues) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> a;
    std::vector<double> b;
    for (int i = 0; i < 3 + trial % 3; ++i) a.push_back(normal(random));
    for (int i = 0; i < 3 + trial % 4; ++i) b.push_back(normal(random) + 0.1 * trial);
    EXPECT_NEAR(mann_whitney_p(a, b), enumerated_p(a, b), 1e-12) << "trial " << trial << " of seed 11";
  }
  // Six against six, wholly apart: 2 / C(12, 6).
  EXPECT_NEAR(mann_whitney_p(std::vector<double>{1, 2, 3, 4, 5, 6}, std::vector<double>{7, 8, 9, 10, 11, 12}),
              2.0 / 924, 1e-12);
}

TEST(Statistics, MannWhitneyCorrectsForTies) {
  // As R's wilcox.test(c(1,2,2,3,4), c(2,3,5,6,7), exact = FALSE) computes: U = 4.5, variance 25/12 (11 - 30/90).
  const double z = (12.5 - 4.5 - 0.5) / std::sqrt(25.0 / 12 * (11 - 30.0 / 90));
  EXPECT_NEAR(mann_whitney_p(std::vector<double>{1, 2, 2, 3, 4}, std::vector<double>{2, 3, 5, 6, 7}),
              std::erfc(z / std::sqrt(2.0)), 1e-12);
  EXPECT_EQ(mann_whitney_p(std::vector<double>{3, 3, 3}, std::vector<double>{3, 3, 3}), 1);
}

// Where the exact recurrence gives way to the normal approximation, both agree.
TEST(Statistics, MannWhitneyIsContinuousInSize) {
  std::mt19937_64 random(13);
  std::normal_distribution<double> normal;
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < 50; ++i) a.push_back(normal(random));
  for (int i = 0; i < 50; ++i) b.push_back(normal(random) + 0.4);
  const double exact = mann_whitney_p(a, b);
  std::vector<double> tied(a);
  tied.back() = b.front();  // one tie: the approximation
  EXPECT_NEAR(mann_whitney_p(tied, b), exact, 0.01);
}

// Over all 2^n signs: those whose rank sum lies at least as far from its mean.
double enumerated_signed_p(const std::vector<double>& differences) {
  const std::size_t n = differences.size();
  std::vector<double> ranks;
  for (const double one : differences) {
    double rank = 1;
    for (const double other : differences) rank += std::abs(other) < std::abs(one) ? 1 : 0;
    ranks.push_back(rank);
  }
  const double mean = static_cast<double>(n * (n + 1)) / 4;
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += differences[i] > 0 ? ranks[i] : 0;
  int extreme = 0;
  for (unsigned signs = 0; signs < 1U << n; ++signs) {
    double other = 0;
    for (std::size_t i = 0; i < n; ++i) other += (signs >> i & 1U) != 0 ? ranks[i] : 0;
    extreme += std::abs(other - mean) >= std::abs(sum - mean) ? 1 : 0;
  }
  return static_cast<double>(extreme) / static_cast<double>(1U << n);
}

TEST(Statistics, SignedRankAgreesWithEnumeration) {
  std::mt19937_64 random(17);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 30; ++trial) {
    std::vector<double> differences;
    for (int i = 0; i < 4 + trial % 8; ++i) differences.push_back(normal(random) + 0.05 * trial);
    EXPECT_NEAR(signed_rank_p(differences), std::min(1.0, enumerated_signed_p(differences)), 1e-12)
        << "trial " << trial << " of seed 17";
  }
  EXPECT_NEAR(signed_rank_p(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}), 2.0 / 256, 1e-12);
  EXPECT_EQ(signed_rank_p(std::vector<double>{0, 0, 0}), 1);
}

TEST(Statistics, SignedRankCorrectsForTies) {
  // Ranks 2, 2, 2, 4, 5 of -1, 1, 1, 2, 3: positive ones sum up to 13 of 15; variance 5 6 11 / 24 - 24 / 48.
  const double z = (7.5 - 2 - 0.5) / std::sqrt(5.0 * 6 * 11 / 24 - 0.5);
  EXPECT_NEAR(signed_rank_p(std::vector<double>{-1, 1, 1, 2, 3}), std::erfc(z / std::sqrt(2.0)), 1e-12);
}

TEST(Statistics, SignedRankIsContinuousInSize) {
  std::mt19937_64 random(19);
  std::normal_distribution<double> normal;
  std::vector<double> differences;
  for (int i = 0; i < 50; ++i) differences.push_back(normal(random) + 0.3);
  const double exact = signed_rank_p(differences);
  differences.push_back(0.3);  // more than are taken exactly
  EXPECT_NEAR(signed_rank_p(differences), exact, 0.01);
}

}  // namespace
}  // namespace sparsmith
