#include "search/strategy.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "search/basin_hopping.h"
#include "search/race.h"

namespace sparsmith {
namespace {

constexpr int kShortReplays = 3;
constexpr int kLongerReplays = 7;
constexpr double kKeepWithin = 1.25;  // of the best median
constexpr std::size_t kBaselineFinalists = 2;
constexpr std::size_t kBatchSize = 64;  // bounds what is packed at once

// Goes through a list, a batch at a time.
class ListStrategy : public Strategy {
 public:
  ListStrategy(std::vector<std::size_t> order, int replays) : order_(std::move(order)), replays_(replays) {}

  std::vector<Proposal> propose() override {
    std::vector<Proposal> batch;
    for (; next_ < order_.size() && batch.size() < kBatchSize; ++next_) batch.push_back({order_[next_], replays_});
    return batch;
  }
  void report(const TrialOutcome&) override {}

 private:
  std::vector<std::size_t> order_;
  int replays_;
  std::size_t next_ = 0;
};

// The incumbents and the baseline first, in their order; then the others as `order` has them.
std::vector<std::size_t> with_first(const SearchPoints& points, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> all;
  std::set<std::size_t> seen;
  for (const std::size_t point : points.selected) {
    const SpacePoint& each = points.points[point];
    if ((each.incumbent || each.baseline) && seen.insert(point).second) all.push_back(point);
  }
  for (const std::size_t point : order) {
    if (seen.insert(point).second) all.push_back(point);
  }
  return all;
}

std::vector<std::size_t> every_point(const SearchPoints& points) {
  std::vector<std::size_t> all(points.points.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::unique_ptr<Strategy> exhaustive(const SearchPoints& points) {
  std::vector<std::size_t> order = every_point(points);
  // Packing by packing, so that each is made once and dropped after use.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return points.points[a].packing < points.points[b].packing; });
  return std::make_unique<ListStrategy>(with_first(points, order), kLongerReplays);
}

std::unique_ptr<Strategy> random_order(const SearchPoints& points, std::uint64_t seed) {
  std::vector<std::size_t> order = every_point(points);
  std::mt19937_64 random(seed);
  // Not std::shuffle, whose order differs between libraries.
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return std::make_unique<ListStrategy>(with_first(points, order), kShortReplays);
}

}  // namespace

const char* strategy_name(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::kRace: return "race";
    case StrategyKind::kExhaustive: return "exhaustive";
    case StrategyKind::kRandom: return "random";
    case StrategyKind::kBasinHopping: return "basin-hopping";
  }
  return "";
}

StrategyKind strategy_of_name(std::string_view name) {
  return *std::ranges::find(kStrategies, name, [](StrategyKind kind) { return std::string_view(strategy_name(kind)); });
}

std::unique_ptr<Strategy> make_strategy(StrategyKind kind, const SearchPoints& points, std::uint64_t seed) {
  switch (kind) {
    case StrategyKind::kRace: break;
    case StrategyKind::kExhaustive: return exhaustive(points);
    case StrategyKind::kRandom: return random_order(points, seed);
    case StrategyKind::kBasinHopping: return make_basin_hopping(points, seed);
  }
  return make_race(points);
}

std::vector<std::size_t> still_standing(const SearchPoints& points, std::vector<Standing> timed, std::size_t limit) {
  std::stable_sort(timed.begin(), timed.end(),
                   [](const Standing& a, const Standing& b) { return a.median_us < b.median_us; });
  const auto first_other =
      std::ranges::find_if(timed, [&](const Standing& each) { return !points.points[each.point].baseline; });
  std::vector<std::size_t> kept;
  std::set<std::string> packings;
  std::size_t baseline = 0;
  std::size_t others = 0;  // that are kept
  for (const Standing& each : timed) {
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
