// Search strategies: which candidates of one (weight, N) space are tried, in which order, and with how many samples.
//
// A strategy sees the points of the space and what came of those that it proposed, never a device: the same object
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
  // What the race begins with, in this order: the incumbent, the baseline, and what select_candidates() chose. Other
  // strategies begin with the incumbent and the baseline among them.
  std::vector<std::size_t> selected;
  // What the fastest took for a weight near this one, whose choices were selected; 0: not known. The race goes beyond
  // what was selected only where nothing comes near that.
  double expected_us = 0;
  // What dense is predicted to take; 0: not known, or no matter. The race does not look further where the best is far
  // slower.
  double dense_us = 0;
};

struct Proposal {
  std::size_t point = 0;
  int replays = 3;
};

// What came of a proposal.
struct TrialOutcome {
  std::size_t point = 0;
  bool ok = false;  // verified and timed
  double median_us = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // What to try next, in this order; a point may come again for more samples. Nothing: the strategy is done.
  virtual std::vector<Proposal> propose() = 0;
  // Of each proposal, in order; those of a batch that was cut short by a stop condition never come.
  virtual void report(const TrialOutcome& outcome) = 0;
};

enum class StrategyKind : std::uint8_t {
  kRace,          // the selected ones, and what their outcomes promise of others
  kExhaustive,    // every point, packing by packing
  kRandom,        // every point, in drawn order
  kBasinHopping,  // descends along configs that differ in one parameter, and hops on (Wales and Doye, 1997)
};
inline constexpr StrategyKind kStrategies[] = {StrategyKind::kRace, StrategyKind::kExhaustive, StrategyKind::kRandom,
                                               StrategyKind::kBasinHopping};
const char* strategy_name(StrategyKind kind);  // "race", "exhaustive", "random", "basin-hopping"
// REQUIRES: a name of one.
StrategyKind strategy_of_name(std::string_view name);

// `points` outlives the strategy. The same seed gives the same proposals for the same outcomes.
std::unique_ptr<Strategy> make_strategy(StrategyKind kind, const SearchPoints& points, std::uint64_t seed);

// Of those that were timed, who is still in: within `keep_within` of the fastest, and at most `limit` but for the
// fastest of each packing; incumbents and the fastest two of the baseline in any case. Fastest first.
struct Standing {
  std::size_t point = 0;
  double median_us = 0;
};
std::vector<std::size_t> still_standing(const SearchPoints& points, std::vector<Standing> timed, std::size_t limit);

inline constexpr std::size_t kFinalists = 6;

}  // namespace sparsmith
