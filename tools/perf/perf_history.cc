// `sparsmith perf history` and `sparsmith perf mark`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "history/series.h"
#include "tools/command.h"
#include "tools/output_files.h"
#include "tools/perf/perf_options.h"
#include "tools/perf/perf_pages.h"
#include "tools/print.h"
#include "tools/report/report_page.h"

namespace sparsmith::tools {
namespace {

std::string change_text(const SeriesChange& change) {
  return fmt::format("{:+.1f} % (p = {:.3f}){}", 100 * change.point.change(), change.point.p,
                     change.accepted ? ", accepted: " + change.accepted->reason : "");
}

// Every commit of one case.
std::string one_series(const PerfSeries& series) {
  Table table{.columns = {"commit", "committed at", ">us", "quartiles", ">rounds", "change"}};
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const SeriesPoint& point = series.points[i];
    std::string note;
    const auto change = std::ranges::find(series.changes, i, [](const SeriesChange& of) { return of.point.index; });
    if (change != series.changes.end()) note = change_text(*change);
    if (i > 0 && point.segment != series.points[i - 1].segment)
      note = "from here on: " + environment_text(series.segments[point.segment].environment);
    table.add(point.commit.substr(0, 12), point.committed_at, fmt::format("{:.3f}", point.median),
              fmt::format("[{:.3f}, {:.3f}]", point.q1, point.q3), point.rounds, note);
  }
  return fmt::format("{} ({}, {}, {})\n{}", series.key.name, series.key.operator_name, series.key.device_class,
                     series.key.cache_policy, table.plain());
}

// A line for each case, and one for each change.
std::string all_series(const std::vector<PerfSeries>& all) {
  Table cases{.columns = {"case", "operator", "device class", ">commits", ">first us", ">last us", ">changes"}};
  Table changes{.columns = {"commit", "case", "change"}};
  for (const PerfSeries& series : all) {
    cases.add(series.key.name, series.key.operator_name, series.key.device_class, series.points.size(),
              fmt::format("{:.3f}", series.points.front().median), fmt::format("{:.3f}", series.points.back().median),
              series.changes.size());
    for (const SeriesChange& change : series.changes)
      changes.add(series.points[change.point.index].commit.substr(0, 12), series.key.name, change_text(change));
  }
  return cases.plain() + (changes.rows.empty() ? "" : "\n" + changes.plain());
}

}  // namespace

Result<ExitCode> perf_history(const PerfOptions& options) {
  SPARSMITH_RETURN_IF_ERROR(
      check_outputs({options.database}, {{"--html", options.html, OutputKind::kPage}}, options.force));
  SPARSMITH_ASSIGN_OR_RETURN(PerfStore store, PerfStore::open(options.database, PerfStore::Mode::kReadOnly));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<PerfSeries> all,
                             load_series(store, {.branch = options.branch, .case_name = options.case_name}));
  if (all.empty())
    return not_found(fmt::format("{}: nothing is recorded{}{}", store.path(),
                                 options.branch.empty() ? "" : " of branch " + options.branch,
                                 options.case_name.empty() ? "" : " for case " + options.case_name));
  const nlohmann::json json = history_json(all);
  SPARSMITH_RETURN_IF_ERROR(write_page(options.html, "Performance history", json_line(json), store.path()));
  std::string text;
  if (options.case_name.empty())
    text = all_series(all);
  else
    for (const PerfSeries& series : all) text += one_series(series);
  print_result(options.json, json, text);
  return kDone;
}

Result<ExitCode> perf_mark(const PerfOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(PerfStore store, PerfStore::open(options.database, PerfStore::Mode::kReadWrite));
  PerfMark mark = options.mark;
  SPARSMITH_ASSIGN_OR_RETURN(mark.commit, store.resolve(mark.commit));
  SPARSMITH_RETURN_IF_ERROR(store.mark(mark));
  print_result(options.json, nlohmann::json{{"commit", mark.commit}, {"case", mark.case_name}, {"reason", mark.reason}},
               fmt::format("accepted {} for {}: {}\n", mark.commit,
                           mark.case_name.empty() ? "every case" : mark.case_name, mark.reason));
  return kDone;
}

}  // namespace sparsmith::tools
