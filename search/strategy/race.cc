#include "search/strategy/race.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "search/strategy/prediction_correction.h"

namespace sparsmith {
namespace {

constexpr int kShortReplays = 3;
constexpr int kLongerReplays = 7;
// The device waits while a wave is packed and compiled, so there are few of them.
constexpr int kWaves = 2;
constexpr std::size_t kWaveSize = 12;     // and no more than half of what was selected
constexpr std::size_t kNewPackings = 4;   // of a wave
constexpr double kPackingPenalty = 1.05;  // a packing that is not there must promise so much more
constexpr double kDisagrees = 1.15;       // over what a like weight took: there must be something better
constexpr double kFarBehindDense = 2;     // over what dense is predicted to take: nothing will beat it
// With the last wave, and as long as they find something better, come configs that differ from the best in one
// parameter, and from the best of another family where that is nearly as fast: what a regression over few of them does
// not tell.
constexpr int kLooks = 3;
constexpr std::size_t kNeighbours = 8;       // of each of the two
constexpr std::size_t kNewOfNeighbours = 2;  // packings, of each
constexpr double kNearlyAsFast = 1.05;

class Race : public Strategy {
 public:
  explicit Race(const SearchPoints& points) : points_(points), tried_(points.points.size()) {
    selected_ = static_cast<std::size_t>(
        std::ranges::count_if(points.selected, [&](std::size_t point) { return !points.points[point].baseline; }));
  }

  std::vector<TrialRequest> propose() override {
    // The baseline waits for no compiler: it runs while the kernels of the others are being compiled.
    while (begun_ < 2) {
      const bool baseline = begun_++ == 0;
      std::vector<std::size_t> points;
      std::ranges::copy_if(points_.selected, std::back_inserter(points),
                           [&](std::size_t point) { return points_.points[point].baseline == baseline; });
      if (!points.empty()) return requests(points, kShortReplays);
    }
    while (waves_ < kWaves) {
      ++waves_;
      std::vector<std::size_t> points = wave();
      if (points.empty()) waves_ = kWaves;
      if (waves_ == kWaves) add_neighbours(points);
      if (!points.empty()) return requests(points, kShortReplays);
    }
    while (looks_ < kLooks) {
      std::vector<std::size_t> points;
      if (!timed_.empty() && best().median_us < looked_around_us_) add_neighbours(points);
      if (!points.empty()) return requests(points, kShortReplays);
      looks_ = kLooks;
    }
    if (closed_) return {};
    closed_ = true;
    std::vector<TimedPoint> all = timed_;
    all.insert(all.end(), baseline_.begin(), baseline_.end());
    const std::vector<std::size_t> left = fastest_points(points_, all, 2 * kFinalists);
    // Where all of them go to the final, it is the final that tells them apart.
    if (left.size() == fastest_points(points_, all, kFinalists).size()) return {};
    return requests(left, kLongerReplays);
  }

  void report(const TrialOutcome& outcome) override {
    if (closed_ || !outcome.ok) return;
    (points_.points[outcome.point].baseline ? baseline_ : timed_).push_back({outcome.point, outcome.median_us});
  }

 private:
  std::vector<TrialRequest> requests(const std::vector<std::size_t>& points, int replays) {
    std::vector<TrialRequest> batch;
    for (const std::size_t point : points) {
      batch.push_back({point, replays});
      tried_[point] = true;
      packings_.insert(points_.points[point].packing);
    }
    return batch;
  }

  TimedPoint best() const { return std::ranges::min(timed_, {}, &TimedPoint::median_us); }

  // Not where there is nobody else, nothing to learn from, or no reason to look further.
  bool looks_further() const {
    if (timed_.empty() || points_.selected.size() == points_.points.size()) return false;
    if (points_.dense_us > 0 && best().median_us > kFarBehindDense * points_.dense_us) return false;
    return points_.expected_us <= 0 || best().median_us > kDisagrees * points_.expected_us;
  }

  void learn() {
    if (!correction_) correction_.emplace(points_.points);
    for (; learnt_ < timed_.size(); ++learnt_) correction_->measured(timed_[learnt_].point, timed_[learnt_].median_us);
  }

  std::vector<std::size_t> wave() {
    if (!looks_further()) return {};
    learn();
    const double best_us = best().median_us;
    // Each is supposed to turn out as is likely, so that the next is not one more of its kind.
    PredictionCorrection supposed = *correction_;
    std::vector<std::size_t> chosen;
    std::set<std::string> packings;  // new ones
    const std::size_t size = std::min(kWaveSize, (selected_ + 1) / 2);
    while (chosen.size() < size) {
      const std::optional<std::size_t> next = most_promising(supposed, chosen, packings, best_us);
      if (!next) break;
      chosen.push_back(*next);
      const std::string& packing = points_.points[*next].packing;
      if (!packings_.contains(packing)) packings.insert(packing);
      supposed.suppose(*next);
    }
    return chosen;
  }

  // The one that may be hoped to take least, and less than `best_us`.
  std::optional<std::size_t> most_promising(const PredictionCorrection& correction,
                                            const std::vector<std::size_t>& chosen,
                                            const std::set<std::string>& packings, double best_us) const {
    std::optional<std::size_t> found;
    double least_us = best_us;
    for (std::size_t point = 0; point < points_.points.size(); ++point) {
      if (tried_[point] || std::ranges::find(chosen, point) != chosen.end()) continue;
      double us = correction.hoped_us(point);
      if (us >= least_us) continue;
      const std::string& packing = points_.points[point].packing;
      if (!packings_.contains(packing) && !packings.contains(packing)) {
        us *= kPackingPenalty;
        if (packings.size() == kNewPackings || us >= least_us) continue;
      }
      found = point;
      least_us = us;
    }
    return found;
  }

  // The best, and the best of another family where it is nearly as fast.
  std::vector<TimedPoint> centres() const {
    std::vector<TimedPoint> found = {best()};
    std::optional<TimedPoint> other;
    for (const TimedPoint& each : timed_) {
      if (points_.points[each.point].config.family == points_.points[found[0].point].config.family) continue;
      if (each.median_us > kNearlyAsFast * found[0].median_us) continue;
      if (!other || each.median_us < other->median_us) other = each;
    }
    if (other) found.push_back(*other);
    return found;
  }

  // What differs from the centre in one parameter and beats it if the guess is too high by two standard deviations;
  // what is likely to take least comes first.
  std::vector<TimedPoint> neighbours(const TimedPoint& centre) const {
    std::vector<TimedPoint> near;
    const Config& config = points_.points[centre.point].config;
    for (std::size_t point = 0; point < points_.points.size(); ++point) {
      const Config& other = points_.points[point].config;
      if (tried_[point] || other.family != config.family || parameters_between(config, other) != 1) continue;
      const double likely_us = correction_->likely_us(point);
      const double hoped_us = correction_->hoped_us(point);  // one standard deviation, a factor
      if (hoped_us * hoped_us / likely_us < centre.median_us) near.push_back({point, likely_us});
    }
    std::ranges::stable_sort(near, {}, &TimedPoint::median_us);
    return near;
  }

  void add_neighbours(std::vector<std::size_t>& chosen) {
    ++looks_;
    if (!looks_further()) return;
    learn();
    looked_around_us_ = best().median_us;
    for (const TimedPoint& centre : centres()) {
      std::set<std::string> packings;  // new ones
      std::size_t added = 0;
      for (const TimedPoint& each : neighbours(centre)) {
        if (added == kNeighbours) break;
        if (std::ranges::find(chosen, each.point) != chosen.end()) continue;
        const std::string& packing = points_.points[each.point].packing;
        const bool is_new = !packings_.contains(packing) && !packings.contains(packing);
        if (is_new && packings.size() == kNewOfNeighbours) continue;
        if (is_new) packings.insert(packing);
        chosen.push_back(each.point);
        ++added;
      }
    }
  }

  const SearchPoints& points_;
  std::vector<bool> tried_;
  std::size_t selected_ = 0;        // the baseline not counted
  std::set<std::string> packings_;  // of those that were proposed
  std::vector<TimedPoint> timed_;
  std::vector<TimedPoint> baseline_;  // timed as well: nothing is learnt from it
  std::optional<PredictionCorrection> correction_;
  std::size_t learnt_ = 0;  // of `timed_`
  int begun_ = 0;           // batches of what was selected
  int waves_ = 0;
  double looked_around_us_ = 0;  // the best when its neighbours were last looked at
  int looks_ = 0;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<Strategy> make_race(const SearchPoints& points) { return std::make_unique<Race>(points); }

}  // namespace sparsmith
