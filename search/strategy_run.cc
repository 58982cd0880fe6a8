#include "search/strategy_run.h"

#include <algorithm>
#include <set>
#include <vector>

namespace sparsmith {
namespace {

// Time that is over is not spent on packing and compiling what will not have its turn.
bool worth_preparing(const std::vector<Proposal>& batch, const std::set<std::size_t>& tried,
                     const SearchProgress& progress, std::span<const StopCondition* const> conditions) {
  if (progress.tried == 0) return true;
  if (std::ranges::all_of(batch, [&](const Proposal& each) { return tried.contains(each.point); })) return true;
  return std::ranges::none_of(conditions, [&](const StopCondition* condition) {
    return condition->cuts_short() && condition->reached(progress);
  });
}

}  // namespace

Result<bool> run_strategy(Strategy& strategy, const SearchPoints& points,
                          std::span<const StopCondition* const> conditions, TrialBench& bench) {
  SearchProgress progress;
  std::set<std::size_t> tried;
  while (true) {
    const std::vector<Proposal> batch = strategy.propose();
    if (batch.empty()) return true;
    if (!worth_preparing(batch, tried, progress, conditions)) return false;
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
