// The statistics for a comparison of two sets of times.
//
// Samples taken directly after each other are not independent: clocks stay constant for a while. So each round of
// samples gives one value, and only rounds, which are further apart, count as evidence (batch means: Law and Kelton,
// Simulation Modeling and Analysis, §9.5).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sparsmith {

// REQUIRES, for all functions: at least one value, all values finite.
double median(std::span<const double> values);
double quantile(std::span<const double> values, double share);  // linear between order statistics

// The mean without the lowest and the highest fifth: the time of one round. A spike does not change it. When clocks
// jump between two values, it does not jump with the majority as a median does.
double trimmed_mean(std::span<const float> values);

// An estimated location with its confidence interval.
struct Estimate {
  double center = 0;
  double low = 0;
  double high = 0;
};

// The median of all pairwise means, and the interval of about 95 % that the signed-rank test inverts to (Hodges and
// Lehmann, Estimates of Location Based on Rank Tests, 1963; Hollander, Wolfe and Chicken, Nonparametric Statistical
// Methods, §3.2 and §3.3). For fewer than six values there is no such interval: then it is from the smallest to the
// largest value.
Estimate hodges_lehmann(std::span<const double> values);

// The two-sided probability, for equal distributions, of a Mann-Whitney U at least as far from its mean. Exact when
// there are no ties and both sides have at most 50 values (Mann and Whitney, On a Test of Whether one of Two Random
// Variables is Stochastically Larger than the Other, 1947, by their recurrence); otherwise by the normal approximation
// with corrections for ties and continuity (Hollander, Wolfe and Chicken, §4.1).
double mann_whitney_p(std::span<const double> a, std::span<const double> b);

// The two-sided probability, for differences that are as often above 0 as below it, of a signed-rank sum at least as
// far from its mean. Exact up to 50 differences without ties (Wilcoxon, Individual Comparisons by Ranking Methods,
// 1945); otherwise by the normal approximation with corrections for ties and continuity (Hollander, Wolfe and Chicken,
// §3.1). Differences of 0 are ignored.
double signed_rank_p(std::span<const double> differences);

}  // namespace sparsmith
