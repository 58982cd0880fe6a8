#include "search/strategy/strategy.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "search/strategy/race.h"

namespace sparsmith {
namespace {

constexpr double kKeepWithin = 1.25;  // of the best median
constexpr std::size_t kBaselineFinalists = 2;

// Every point, the incumbents and the baseline first; the others packing by packing, so that each packing is made once
// and dropped after use.
class ExhaustiveStrategy : public Strategy {
 public:
  explicit ExhaustiveStrategy(const SearchPoints& points) : order_(points.points.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, {}, [&](std::size_t point) -> std::pair<bool, std::string_view> {
      const SpacePoint& each = points.points[point];
      const bool first = each.incumbent || each.baseline;
      return {!first, first ? std::string_view() : each.packing};
    });
  }

  std::vector<TrialRequest> propose() override {
    std::vector<TrialRequest> batch;
    for (; next_ < order_.size() && batch.size() < kBatchSize; ++next_) batch.push_back({order_[next_], kReplays});
    return batch;
  }
  void report(const TrialOutcome&) override {}

 private:
  static constexpr int kReplays = 7;
  static constexpr std::size_t kBatchSize = 64;  // bounds what is packed at once

  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
};

}  // namespace

const char* strategy_name(StrategyKind kind) { return kind == StrategyKind::kRace ? "race" : "exhaustive"; }

StrategyKind strategy_of_name(std::string_view name) {
  return *std::ranges::find(kStrategies, name, [](StrategyKind kind) { return std::string_view(strategy_name(kind)); });
}

std::unique_ptr<Strategy> make_strategy(StrategyKind kind, const SearchPoints& points) {
  if (kind == StrategyKind::kExhaustive) return std::make_unique<ExhaustiveStrategy>(points);
  return make_race(points);
}

std::vector<std::size_t> fastest_points(const SearchPoints& points, std::vector<TimedPoint> timed, std::size_t limit) {
  std::stable_sort(timed.begin(), timed.end(),
                   [](const TimedPoint& a, const TimedPoint& b) { return a.median_us < b.median_us; });
  const auto first_other =
      std::ranges::find_if(timed, [&](const TimedPoint& each) { return !points.points[each.point].baseline; });
  std::vector<std::size_t> kept;
  std::set<std::string> packings;
  std::size_t baseline = 0;
  std::size_t others = 0;  // that are kept
  for (const TimedPoint& each : timed) {
    const SpacePoint& point = points.points[each.point];
    if (point.baseline) {
      if (point.incumbent || baseline++ < kBaselineFinalists) kept.push_back(each.point);
      continue;
    }
    const bool close = each.median_us <= kKeepWithin * first_other->median_us;
    const bool first_of_packing = packings.insert(point.packing).second;
    if (!point.incumbent && !(close && (others < limit || first_of_packing))) continue;
    ++others;
    kept.push_back(each.point);
  }
  return kept;
}

}  // namespace sparsmith
