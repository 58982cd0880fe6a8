#include "search/strategy_run.h"

#include <algorithm>

namespace sparsmith {

// Time that is over is not spent on packing and compiling what will not have its turn.
bool StrategyRun::worth_preparing() const {
  if (progress_.tried == 0) return true;
  if (std::ranges::all_of(batch_, [&](const Proposal& each) { return tried_.contains(each.point); })) return true;
  return std::ranges::none_of(conditions_, [&](const StopCondition* condition) {
    return condition->cuts_short() && condition->reached(progress_);
  });
}

bool StrategyRun::propose() {
  if (over_) return false;
  batch_ = strategy_.propose();
  over_ = batch_.empty();
  if (!over_ && !worth_preparing()) {
    over_ = true;
    complete_ = false;
  }
  return !over_;
}

Status StrategyRun::attempt(TrialBench& bench) {
  for (const Proposal& proposal : batch_) {
    const bool first_turn = !tried_.contains(proposal.point);
    if (progress_.tried > 0 && !bench.known(proposal)) {
      for (const StopCondition* condition : conditions_) {
        if (!condition->reached(progress_)) continue;
        over_ = true;
        complete_ = !(condition->cuts_short() && first_turn);
        return {};
      }
    }
    SPARSMITH_ASSIGN_OR_RETURN(const TrialOutcome outcome, bench.attempt(proposal));
    strategy_.report(outcome);
    if (!tried_.insert(proposal.point).second || points_.points[proposal.point].baseline) continue;
    ++progress_.tried;
    ++progress_.since_better;
    if (outcome.ok && (progress_.best_us == 0 || outcome.median_us < progress_.best_us)) {
      progress_.best_us = outcome.median_us;
      progress_.since_better = 0;
    }
  }
  return {};
}

Result<bool> run_strategy(Strategy& strategy, const SearchPoints& points,
                          std::span<const StopCondition* const> conditions, TrialBench& bench) {
  StrategyRun run(strategy, points, conditions);
  while (run.propose()) SPARSMITH_RETURN_IF_ERROR(run.attempt(bench));
  return run.complete();
}

}  // namespace sparsmith
