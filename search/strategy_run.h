// The loop that every search is: ask the strategy, try what it proposes, tell it, until either has enough.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "search/stop_condition.h"
#include "search/strategy.h"
#include "sparsmith/status.h"

namespace sparsmith {

// Where proposals are tried: a device, or a recorded space.
class TrialBench {
 public:
  virtual ~TrialBench() = default;
  // Whether the trial costs nothing, since it is known what comes of it: stop conditions are not asked.
  virtual bool known(const Proposal& proposal) = 0;
  // Error: what ends the search. A candidate that fails is an outcome.
  virtual Result<TrialOutcome> attempt(const Proposal& proposal) = 0;
};

// A search batch by batch, so that there is room between asking and trying: for packing and compiling, and for other
// searches on the same device. All that is given outlives it.
class StrategyRun {
 public:
  StrategyRun(Strategy& strategy, const SearchPoints& points, std::span<const StopCondition* const> conditions)
      : strategy_(strategy), points_(points), conditions_(conditions) {}

  // Asks for the next batch. False: the search is over.
  bool propose();
  std::span<const Proposal> batch() const { return batch_; }
  // Tries the batch. Error: what ends the search.
  Status attempt(TrialBench& bench);

  // False when a stop condition that cuts short came before some proposed point had its first turn. The baseline and
  // the first other point are tried in any case.
  bool complete() const { return complete_; }

 private:
  bool worth_preparing() const;

  Strategy& strategy_;
  const SearchPoints& points_;
  const std::span<const StopCondition* const> conditions_;
  std::vector<Proposal> batch_;
  SearchProgress progress_;
  std::set<std::size_t> tried_;
  bool over_ = false;
  bool complete_ = true;
};

// All of it, where nothing has to be prepared. Returns whether it is complete.
Result<bool> run_strategy(Strategy& strategy, const SearchPoints& points,
                          std::span<const StopCondition* const> conditions, TrialBench& bench);

}  // namespace sparsmith
