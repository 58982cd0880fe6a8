#include "search/strategy_run.h"

#include <set>

namespace sparsmith {

Result<bool> run_strategy(Strategy& strategy, const SearchPoints& points,
                          std::span<const StopCondition* const> conditions, TrialBench& bench) {
  SearchProgress progress;
  std::set<std::size_t> tried;
  while (true) {
    const std::vector<Proposal> batch = strategy.propose();
    if (batch.empty()) return true;
    SPARSMITH_RETURN_IF_ERROR(bench.prepare(batch));
    for (const Proposal& proposal : batch) {
      const bool first_turn = !tried.contains(proposal.point);
      if (progress.tried > 0 && !bench.known(proposal)) {
        for (const StopCondition* condition : conditions) {
          if (condition->reached(progress)) return !(condition->cuts_short() && first_turn);
        }
      }
      SPARSMITH_ASSIGN_OR_RETURN(const TrialOutcome outcome, bench.attempt(proposal));
      strategy.report(outcome);
      if (!tried.insert(proposal.point).second || points.points[proposal.point].baseline) continue;
      ++progress.tried;
      ++progress.since_better;
      if (outcome.ok && (progress.best_us == 0 || outcome.median_us < progress.best_us)) {
        progress.best_us = outcome.median_us;
        progress.since_better = 0;
      }
    }
  }
}

}  // namespace sparsmith
