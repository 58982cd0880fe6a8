#include "history/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace sparsmith {
namespace {

constexpr std::size_t kMostExact = 50;    // values of a side
constexpr double kNormalQuantile = 1.96;  // 97.5 %

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> result(values.begin(), values.end());
  std::ranges::sort(result);
  return result;
}

double median_of_sorted(const std::vector<double>& values) {
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The probability that U <= `u` of n against m values without ties. ways[j][v] counts the orders of i against j values
// whose U is v; by the last value's side: ways(i, j, v) = ways(i - 1, j, v - j) + ways(i, j - 1, v).
double exact_tail(std::size_t n, std::size_t m, std::size_t u) {
  std::vector<std::vector<double>> ways(m + 1, std::vector<double>(u + 1, 0));
  for (std::size_t j = 0; j <= m; ++j) ways[j][0] = 1;  // i = 0: one order, whose U is 0
  for (std::size_t i = 1; i <= n; ++i) {
    for (std::size_t j = 1; j <= m; ++j) {  // ways[j] still holds i - 1, ways[j - 1] already holds i
      for (std::size_t v = u + 1; v-- > 0;) ways[j][v] = (v >= j ? ways[j][v - j] : 0) + ways[j - 1][v];
    }
  }
  const double tail = std::accumulate(ways[m].begin(), ways[m].end(), 0.0);
  double all = 1;  // n + m over n
  for (std::size_t k = 1; k <= n; ++k) all *= static_cast<double>(m + k) / static_cast<double>(k);
  return tail / all;
}

// The probability that the ranks of the positive ones among n differences sum up to at most `most`: of the 2^n sets of
// ranks, ways[s] have the sum s.
double exact_signed_tail(std::size_t n, std::size_t most) {
  std::vector<double> ways(most + 1, 0);
  ways[0] = 1;
  for (std::size_t rank = 1; rank <= n; ++rank) {
    for (std::size_t s = most + 1; s-- > rank;) ways[s] += ways[s - rank];
  }
  return std::ldexp(std::accumulate(ways.begin(), ways.end(), 0.0), -static_cast<int>(n));
}

// The sum of t^3 - t over groups of t equal values.
double tied(const std::vector<double>& sorted_values) {
  double ties = 0;
  for (auto begin = sorted_values.begin(); begin != sorted_values.end();) {
    const auto end = std::upper_bound(begin, sorted_values.end(), *begin);
    const auto t = static_cast<double>(end - begin);
    ties += t * t * t - t;
    begin = end;
  }
  return ties;
}

// The two-sided probability of a sum of ranks so far from its mean, by the normal approximation with its correction for
// continuity.
double normal_p(double distance, double variance) {
  if (variance <= 0) return 1;  // all values are equal
  return std::erfc(std::max(0.0, distance - 0.5) / std::sqrt(variance) / std::sqrt(2.0));
}

}  // namespace

double median(std::span<const double> values) { return median_of_sorted(sorted(values)); }

double quantile(std::span<const double> values, double share) {
  const std::vector<double> order = sorted(values);
  const double position = share * static_cast<double>(order.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, order.size() - 1);
  return order[below] + (order[above] - order[below]) * (position - static_cast<double>(below));
}

double trimmed_mean(std::span<const float> values) {
  std::vector<float> order(values.begin(), values.end());
  std::ranges::sort(order);
  const std::size_t cut = order.size() / 5;
  double sum = 0;
  for (std::size_t i = cut; i < order.size() - cut; ++i) sum += order[i];
  return sum / static_cast<double>(order.size() - 2 * cut);
}

Estimate hodges_lehmann(std::span<const double> values) {
  const std::size_t n = values.size();
  std::vector<double> means;
  means.reserve(n * (n + 1) / 2);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) means.push_back((values[i] + values[j]) / 2);
  }
  std::ranges::sort(means);
  const auto count = static_cast<double>(n);
  const double half = count * (count + 1) / 4;
  const double deviation = std::sqrt(count * (count + 1) * (2 * count + 1) / 24);
  const auto rank = static_cast<std::size_t>(std::max(1.0, std::floor(half - kNormalQuantile * deviation)));
  return {median_of_sorted(means), means[rank - 1], means[means.size() - rank]};
}

double signed_rank_p(std::span<const double> differences) {
  std::vector<double> sizes;
  for (const double difference : differences) {
    if (difference != 0) sizes.push_back(std::abs(difference));
  }
  std::ranges::sort(sizes);
  const std::size_t n = sizes.size();
  double sum = 0;  // of the ranks of positive differences; tied ones share the mean of theirs
  for (const double difference : differences) {
    if (difference <= 0) continue;
    const auto [low, high] = std::ranges::equal_range(sizes, difference);
    sum += static_cast<double>(low - sizes.begin()) + static_cast<double>(high - low + 1) / 2;
  }
  const auto count = static_cast<double>(n);
  const double smaller = std::min(sum, count * (count + 1) / 2 - sum);
  const double ties = tied(sizes);
  if (ties == 0 && n <= kMostExact) return std::min(1.0, 2 * exact_signed_tail(n, static_cast<std::size_t>(smaller)));
  return normal_p(count * (count + 1) / 4 - smaller, count * (count + 1) * (2 * count + 1) / 24 - ties / 48);
}

double mann_whitney_p(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const auto m = static_cast<double>(b.size());
  const std::vector<double> y = sorted(b);
  double u = 0;  // pairs in which a's value is the larger, halves for ties
  for (const double value : a) {
    const auto [low, high] = std::ranges::equal_range(y, value);
    u += static_cast<double>(low - y.begin()) + static_cast<double>(high - low) / 2;
  }
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  const double ties = tied(sorted(all));
  const double smaller = std::min(u, n * m - u);
  if (ties == 0 && a.size() <= kMostExact && b.size() <= kMostExact)
    return std::min(1.0, 2 * exact_tail(a.size(), b.size(), static_cast<std::size_t>(smaller)));
  const double total = n + m;
  return normal_p(n * m / 2 - smaller, n * m / 12 * (total + 1 - ties / (total * (total - 1))));
}

}  // namespace sparsmith
