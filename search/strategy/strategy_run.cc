#include "search/strategy/strategy_run.h"

#include <algorithm>

namespace sparsmith {

// Time that is over is not spent on packing and compiling what will not have its turn.
bool StrategyRun::worth_preparing() const {
  if (tried_beside_baseline_ == 0) return true;
  if (std::ranges::all_of(batch_, [&](const TrialRequest& each) { return tried_.contains(each.point); })) return true;
  return !end_.is_out_of_time();
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
  for (const TrialRequest& request : batch_) {
    const bool first_turn = !tried_.contains(request.point);
    if (tried_beside_baseline_ > 0 && !bench.known(request)) {
      const bool late = end_.is_out_of_time();
      over_ = late || tried_beside_baseline_ >= end_.most_candidates;
      if (late) complete_ = !first_turn;
      if (over_) return {};
    }
    SPARSMITH_ASSIGN_OR_RETURN(const TrialOutcome outcome, bench.attempt(request));
    strategy_.report(outcome);
    if (!tried_.insert(request.point).second || points_.points[request.point].baseline) continue;
    ++tried_beside_baseline_;
  }
  return {};
}

Result<bool> run_strategy(Strategy& strategy, const SearchPoints& points, SearchEnd end, TrialBench& bench) {
  StrategyRun run(strategy, points, std::move(end));
  while (run.propose()) SPARSMITH_RETURN_IF_ERROR(run.attempt(bench));
  return run.complete();
}

}  // namespace sparsmith
