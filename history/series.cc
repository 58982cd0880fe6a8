#include "history/series.h"

#include <map>

#include "history/statistics.h"

namespace sparsmith {
namespace {

using Round = PerfStore::Round;

SeriesPoint point_of(const PerfStore::Commit& commit, const std::vector<const Round*>& rounds) {
  std::vector<double> times;
  const PerfEnvironment& environment = rounds.back()->environment;
  for (const Round* round : rounds) {
    if (round->environment == environment) times.push_back(trimmed_mean(round->samples_us));
  }
  return {.commit = commit.hash,
          .committed_at = commit.committed_at,
          .median = median(times),
          .q1 = quantile(times, 0.25),
          .q3 = quantile(times, 0.75),
          .rounds = static_cast<int>(times.size()),
          .implementation = rounds.back()->implementation};
}

void find_changes(PerfSeries& series, const std::vector<PerfMark>& marks, const ChangePointRules& rules) {
  for (std::size_t segment = 0; segment < series.segments.size(); ++segment) {
    const std::size_t begin = series.segments[segment].first;
    const std::size_t end =
        segment + 1 < series.segments.size() ? series.segments[segment + 1].first : series.points.size();
    std::vector<double> values;
    for (std::size_t i = begin; i < end; ++i) values.push_back(series.points[i].median);
    for (ChangePoint point : find_change_points(values, rules)) {
      point.index += begin;
      SeriesChange change{point, std::nullopt};
      for (const PerfMark& mark : marks) {
        if (mark.accepts(series.key.name) && mark.commit == series.points[point.index].commit) change.accepted = mark;
      }
      series.changes.push_back(std::move(change));
    }
  }
}

}  // namespace

Result<std::vector<PerfSeries>> load_series(PerfStore& store, const SeriesOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<PerfStore::Commit> commits, store.commits(options.branch));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<PerfMark> marks, store.marks());
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<Round> rounds,
                             store.rounds({.branch = options.branch, .case_name = options.case_name}));
  std::map<std::string, std::size_t> order;
  for (std::size_t i = 0; i < commits.size(); ++i) order[commits[i].hash] = i;
  std::map<CaseKey, std::map<std::size_t, std::vector<const Round*>>> cases;
  for (const Round& round : rounds) cases[round.key][order[round.commit]].push_back(&round);

  std::vector<PerfSeries> all;
  for (const auto& [key, by_commit] : cases) {
    PerfSeries& series = all.emplace_back();
    series.key = key;
    for (const auto& [index, of_commit] : by_commit) {
      const PerfEnvironment& environment = of_commit.back()->environment;
      if (series.segments.empty() || !(series.segments.back().environment == environment))
        series.segments.push_back({series.points.size(), environment});
      series.points.push_back(point_of(commits[index], of_commit));
      series.points.back().segment = series.segments.size() - 1;
    }
    find_changes(series, marks, options.rules);
  }
  return all;
}

}  // namespace sparsmith
