#include "history/change_points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "history/statistics.h"

namespace sparsmith {
namespace {

constexpr std::size_t kLongest = 1000;

struct Cut {
  std::size_t index = 0;
  double energy = -std::numeric_limits<double>::infinity();
  double p = 1;
};

// The best cut of values[begin, end) into two parts of at least `shortest`, by the scaled energy distance
//   q = nm / (n + m) * (2 E|X - Y| - E|X - X'| - E|Y - Y'|),
// each mean over distinct pairs. Sums move from one cut to the next in O(length).
Cut best_cut(std::span<const double> values, std::size_t shortest) {
  const std::size_t length = values.size();
  Cut best;
  if (length < 2 * shortest) return best;
  double within_left = 0;
  double within_right = 0;
  double between = 0;
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t j = 0; j < i; ++j) within_right += std::abs(values[i] - values[j]);
  }
  for (std::size_t cut = 1; cut + shortest <= length; ++cut) {  // values[cut - 1] goes over to the left
    double to_left = 0;
    double to_right = 0;
    const double moved = values[cut - 1];
    for (std::size_t i = 0; i + 1 < cut; ++i) to_left += std::abs(values[i] - moved);
    for (std::size_t i = cut; i < length; ++i) to_right += std::abs(values[i] - moved);
    within_left += to_left;
    within_right -= to_right;
    between += to_right - to_left;
    if (cut < shortest) continue;
    const auto n = static_cast<double>(cut);
    const auto m = static_cast<double>(length - cut);
    const double energy = 2 * between / (n * m) - (n > 1 ? within_left / (n * (n - 1) / 2) : 0) -
                          (m > 1 ? within_right / (m * (m - 1) / 2) : 0);
    const double scaled = n * m / (n + m) * energy;
    if (scaled > best.energy) best = {cut, scaled, 1};
  }
  return best;
}

// Segments of a series, and the search for cuts in each.
class Segmentation {
 public:
  Segmentation(std::vector<double> values, const ChangePointRules& rules)
      : values_(std::move(values)), rules_(rules), random_(rules.seed) {
    cuts_.push_back({0, 0, 0});
    cuts_.push_back({values_.size(), 0, 0});
  }

  // Each segment's best cut is tested in that segment alone, so what is found does not depend on the rest.
  void divide() {
    for (std::size_t segment = 0; segment + 1 < cuts_.size();) {
      const std::size_t begin = cuts_[segment].index;
      const std::size_t end = cuts_[segment + 1].index;
      Cut cut = best_cut(std::span(values_).subspan(begin, end - begin), rules_.shortest);
      if (cut.index == 0 || !significant(begin, end, cut)) {
        ++segment;
        continue;
      }
      cut.index += begin;
      cuts_.insert(cuts_.begin() + static_cast<std::ptrdiff_t>(segment) + 1, cut);
    }
  }

  // Drops, one at a time, the cut between the closest medians while they are closer than the smallest change.
  void drop_small() {
    while (cuts_.size() > 2) {
      std::size_t closest = 0;
      double least = std::log1p(rules_.smallest_change);
      for (std::size_t i = 1; i + 1 < cuts_.size(); ++i) {
        const double change = std::abs(median_of(i) - median_of(i - 1));
        if (change < least) {
          least = change;
          closest = i;
        }
      }
      if (closest == 0) return;
      cuts_.erase(cuts_.begin() + static_cast<std::ptrdiff_t>(closest));
    }
  }

  std::vector<ChangePoint> points(std::size_t offset) const {
    std::vector<ChangePoint> points;
    for (std::size_t i = 1; i + 1 < cuts_.size(); ++i)
      points.push_back({cuts_[i].index + offset, std::exp(median_of(i - 1)), std::exp(median_of(i)), cuts_[i].p});
    return points;
  }

 private:
  double median_of(std::size_t segment) const {
    return median(std::span(values_).subspan(cuts_[segment].index, cuts_[segment + 1].index - cuts_[segment].index));
  }

  // Whether few permutations of the segment have a cut as good; ends early where it is hopeless.
  bool significant(std::size_t begin, std::size_t end, Cut& cut) {
    std::vector<double> shuffled(values_.begin() + static_cast<std::ptrdiff_t>(begin),
                                 values_.begin() + static_cast<std::ptrdiff_t>(end));
    const int most = static_cast<int>(rules_.significance * (rules_.permutations + 1));
    int as_good = 1;  // the series itself
    for (int i = 0; i < rules_.permutations && as_good <= most; ++i) {
      std::ranges::shuffle(shuffled, random_);
      if (best_cut(shuffled, rules_.shortest).energy >= cut.energy) ++as_good;
    }
    cut.p = static_cast<double>(as_good) / (rules_.permutations + 1);
    return as_good <= most;
  }

  std::vector<double> values_;
  const ChangePointRules& rules_;
  std::mt19937_64 random_;
  std::vector<Cut> cuts_;  // begins of segments, and the end
};

}  // namespace

std::vector<ChangePoint> find_change_points(std::span<const double> values, const ChangePointRules& rules) {
  const std::size_t offset = values.size() > kLongest ? values.size() - kLongest : 0;
  std::vector<double> logarithms;
  for (const double value : values.subspan(offset)) logarithms.push_back(std::log(value));
  Segmentation segmentation(std::move(logarithms), rules);
  segmentation.divide();
  segmentation.drop_small();
  return segmentation.points(offset);
}

}  // namespace sparsmith
