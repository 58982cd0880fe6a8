// The loop that every search is: ask the strategy, try what it proposes, tell it, until either has enough.
#pragma once

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
  // Before the first of a batch is tried. Error: what ends the search.
  virtual Status prepare(std::span<const Proposal> batch) = 0;
  // Whether the trial costs nothing, since it is known what comes of it: stop conditions are not asked.
  virtual bool known(const Proposal& proposal) = 0;
  // Error: what ends the search. A candidate that fails is an outcome.
  virtual Result<TrialOutcome> attempt(const Proposal& proposal) = 0;
};

// False when a stop condition that cuts short came before some proposed point had its first turn. The baseline and
// the first other point are tried in any case.
Result<bool> run_strategy(Strategy& strategy, const SearchPoints& points,
                          std::span<const StopCondition* const> conditions, TrialBench& bench);

}  // namespace sparsmith
