// Search strategies: which candidates of one (weight, N) space are tried, in which order, and with how many samples.
//
// A strategy sees the points of the space and the outcomes of its requests, never a device. So the same strategy
// searches on a GPU and in a recorded space. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "generator/config.h"

namespace sparsmith {

// A candidate as a strategy knows it.
struct SpacePoint {
  Config config;
  std::string packing;
  double predicted_us = 0;
  bool incumbent = false;  // an earlier run chose it
  bool baseline = false;   // of the family that the others are compared with
};

struct SearchPoints {
  std::vector<SpacePoint> points;
  // The start of the race, in this order: the incumbent, the baseline, the result of select_candidates(). An exhaustive
  // search starts with the incumbent and the baseline.
  std::vector<std::size_t> selected;
  // The fastest time of a near weight, whose choices were selected; 0: not known. The race goes beyond the selected
  // points only if none of them comes near this time.
  double expected_us = 0;
  // The predicted time of dense; 0: not known, or not compared. The race ends early if the best is far slower.
  double dense_us = 0;
};

struct TrialRequest {
  std::size_t point = 0;
  int replays = 3;
};

// The result of a request.
struct TrialOutcome {
  std::size_t point = 0;
  bool ok = false;  // verified and timed
  double median_us = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // The next trials, in order. A point may come again for more samples. Empty: the strategy is done.
  virtual std::vector<TrialRequest> propose() = 0;
  // Called for each request, in order. A batch that a stop condition ends is reported in part.
  virtual void report(const TrialOutcome& outcome) = 0;
};

enum class StrategyKind : std::uint8_t {
  kRace,        // the selected points, and the points that their outcomes promise
  kExhaustive,  // every point, packing by packing
};
inline constexpr StrategyKind kStrategies[] = {StrategyKind::kRace, StrategyKind::kExhaustive};
const char* strategy_name(StrategyKind kind);  // "race", "exhaustive"
// REQUIRES: a name of one.
StrategyKind strategy_of_name(std::string_view name);

// `points` outlives the strategy. The same outcomes give the same requests.
std::unique_ptr<Strategy> make_strategy(StrategyKind kind, const SearchPoints& points);

// Of the points that were timed, those that stay in the search: within 1.25x of the fastest, and at most `limit` but
// for the fastest of each packing; incumbents and the fastest two of the baseline in any case. Fastest first.
struct TimedPoint {
  std::size_t point = 0;
  double median_us = 0;
};
std::vector<std::size_t> fastest_points(const SearchPoints& points, std::vector<TimedPoint> timed, std::size_t limit);

inline constexpr std::size_t kFinalists = 6;

}  // namespace sparsmith
