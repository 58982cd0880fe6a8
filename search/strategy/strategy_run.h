// The loop of every search: ask the strategy for trials, run them, report the outcomes.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "search/strategy/strategy.h"
#include "sparsmith/status.h"

namespace sparsmith {

// What ends a search before its strategy is done.
struct SearchEnd {
  std::size_t most_candidates = std::numeric_limits<std::size_t>::max();  // the baseline not counted
  // The user or the budget asks for the end. More time might have found a faster candidate, so the search is not
  // complete, and the next run searches again. May be empty.
  std::function<bool()> out_of_time = {};

  bool is_out_of_time() const { return out_of_time && out_of_time(); }
};

// Runs trials: on a device, or in a recorded space.
class TrialBench {
 public:
  virtual ~TrialBench() = default;
  // Whether the outcome is known without a trial. Then the search does not end before it.
  virtual bool known(const TrialRequest& request) = 0;
  // Error: ends the search. A failed candidate is an outcome, not an error.
  virtual Result<TrialOutcome> attempt(const TrialRequest& request) = 0;
};

// A search batch by batch. Between the request of a batch and its trials the candidates are packed and compiled, and
// the device may serve other searches. The strategy and the points outlive the object.
class StrategyRun {
 public:
  StrategyRun(Strategy& strategy, const SearchPoints& points, SearchEnd end)
      : strategy_(strategy), points_(points), end_(std::move(end)) {}

  // Asks for the next batch. False: the search is over.
  bool propose();
  std::span<const TrialRequest> batch() const { return batch_; }
  // Tries the batch. Error: ends the search.
  Status attempt(TrialBench& bench);

  // False if the time was over before the first trial of some requested point. The baseline and the
  // first other point are tried in any case.
  bool complete() const { return complete_; }

 private:
  bool worth_preparing() const;

  Strategy& strategy_;
  const SearchPoints& points_;
  const SearchEnd end_;
  std::vector<TrialRequest> batch_;
  std::set<std::size_t> tried_;
  std::size_t tried_beside_baseline_ = 0;
  bool over_ = false;
  bool complete_ = true;
};

// A whole search that needs no preparation. Returns whether it is complete.
Result<bool> run_strategy(Strategy& strategy, const SearchPoints& points, SearchEnd end, TrialBench& bench);

}  // namespace sparsmith
