#include "search/basin_hopping.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace sparsmith {
namespace {

constexpr int kReplays = 3;
constexpr std::size_t kNeighbours = 4;  // tried at a time
constexpr int kDryBatches = 2;          // without a gain, before it hops
constexpr std::size_t kReach = 2;       // parameters that differ between neighbours at most
constexpr std::size_t kHop = 4;         // parameters that a hop changes at most
constexpr double kTemperature = 0.05;   // a hop to what is 5 % slower is accepted with probability 1/e
constexpr double kOtherFamily = 0.2;    // of the hops
constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

class BasinHopping : public Strategy {
 public:
  BasinHopping(const SearchPoints& points, std::uint64_t seed) : points_(points), random_(seed) {
    for (std::size_t i = 0; i < points.points.size(); ++i) {
      if (!points.points[i].baseline) families_[points.points[i].config.family].push_back(i);
    }
  }

  std::vector<Proposal> propose() override {
    if (!started_) return starts();
    finish_batch();
    std::vector<std::size_t> batch;
    if (dry_ < kDryBatches && current_ != kNowhere) batch = neighbours();
    if (batch.empty()) batch = hop();
    std::vector<Proposal> proposals;
    for (const std::size_t point : batch) proposals.push_back(proposal_of(point));
    return proposals;
  }

  void report(const TrialOutcome& outcome) override {
    if (!outcome.ok || points_.points[outcome.point].baseline) return;
    if (batch_best_ == kNowhere || outcome.median_us < batch_best_us_) {
      batch_best_ = outcome.point;
      batch_best_us_ = outcome.median_us;
    }
  }

 private:
  Proposal proposal_of(std::size_t point) {
    tried_.insert(point);
    return {point, kReplays};
  }

  std::vector<Proposal> starts() {
    started_ = true;
    std::vector<Proposal> proposals;
    for (const std::size_t point : points_.selected) {
      const SpacePoint& each = points_.points[point];
      if ((each.incumbent || each.baseline) && !tried_.contains(point)) proposals.push_back(proposal_of(point));
    }
    for (const auto& [name, members] : families_) {
      const std::size_t best = *std::ranges::min_element(members, {}, [&](std::size_t i) { return predicted(i); });
      if (!tried_.contains(best)) proposals.push_back(proposal_of(best));
    }
    return proposals;
  }

  double predicted(std::size_t point) const { return points_.points[point].predicted_us; }

  // Moves to where the last batch found something better, or where a hop is accepted.
  void finish_batch() {
    if (batch_best_ == kNowhere) {
      dry_ = hopped_ ? kDryBatches : dry_ + 1;
      hopped_ = false;
      return;
    }
    const bool better = current_ == kNowhere || batch_best_us_ < current_us_;
    if (better || (hopped_ && accepted())) {
      current_ = batch_best_;
      current_us_ = batch_best_us_;
      dry_ = 0;
    } else {
      // What a hop led to and was not accepted is left at once.
      dry_ = hopped_ ? kDryBatches : dry_ + 1;
    }
    batch_best_ = kNowhere;
    hopped_ = false;
  }

  bool accepted() {
    const double worse = batch_best_us_ / current_us_ - 1;
    return uniform() < std::exp(-worse / kTemperature);
  }

  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  std::vector<std::size_t> neighbours() const {
    struct Near {
      std::size_t distance;
      double predicted_us;
      std::size_t point;
      bool operator<(const Near& other) const {
        return distance != other.distance ? distance < other.distance : predicted_us < other.predicted_us;
      }
    };
    std::vector<Near> near;
    const Config& here = points_.points[current_].config;
    for (const std::size_t point : families_.at(here.family)) {
      if (tried_.contains(point)) continue;
      const std::size_t far = parameters_between(here, points_.points[point].config);
      if (far <= kReach) near.push_back({far, predicted(point), point});
    }
    std::stable_sort(near.begin(), near.end());
    std::vector<std::size_t> batch;
    for (std::size_t i = 0; i < near.size() && i < kNeighbours; ++i) batch.push_back(near[i].point);
    return batch;
  }

  // One drawn point: near the present one, or of another family; any that is left where there is none such.
  std::vector<std::size_t> hop() {
    std::vector<std::size_t> candidates;
    std::vector<std::size_t> left;
    const bool leave = current_ == kNowhere || uniform() < kOtherFamily;
    for (const auto& [name, members] : families_) {
      for (const std::size_t point : members) {
        if (tried_.contains(point)) continue;
        left.push_back(point);
        const bool same = current_ != kNowhere && name == points_.points[current_].config.family;
        const bool in_reach =
            same && parameters_between(points_.points[current_].config, points_.points[point].config) <= kHop;
        if (leave ? !same : in_reach) candidates.push_back(point);
      }
    }
    if (candidates.empty()) candidates = std::move(left);
    if (candidates.empty()) return {};
    hopped_ = true;
    dry_ = 0;
    // Of a few drawn, the best predicted: the model is no guide to the best, but it knows the hopeless.
    std::size_t chosen = candidates[random_() % candidates.size()];
    for (int i = 0; i < 3; ++i) {
      const std::size_t other = candidates[random_() % candidates.size()];
      if (predicted(other) < predicted(chosen)) chosen = other;
    }
    return {chosen};
  }

  const SearchPoints& points_;
  std::mt19937_64 random_;
  std::map<std::string, std::vector<std::size_t>> families_;
  std::set<std::size_t> tried_;
  bool started_ = false;
  std::size_t current_ = kNowhere;
  double current_us_ = 0;
  std::size_t batch_best_ = kNowhere;
  double batch_best_us_ = 0;
  bool hopped_ = false;
  int dry_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_basin_hopping(const SearchPoints& points, std::uint64_t seed) {
  return std::make_unique<BasinHopping>(points, seed);
}

}  // namespace sparsmith
