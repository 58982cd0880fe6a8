// `sparsmith perf history` and `sparsmith perf mark`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "history/series.h"
#include "tools/command.h"
#include "tools/json_output.h"
#include "tools/output_files.h"
#include "tools/perf_options.h"
#include "tools/perf_pages.h"
#include "tools/print.h"
#include "tools/text_table.h"

namespace sparsmith::tools {
namespace {

using nlohmann::json;

json json_of(const PerfSeries& series) {
  json object = {{"case", series.key.name},
                 {"operator", series.key.operator_name},
                 {"weight", series.key.weight},
                 {"device_class", series.key.device_class},
                 {"cache_policy", series.key.cache_policy},
                 {"unit", "us"},
                 {"points", json::array()},
                 {"changes", json::array()}};
  for (const SeriesPoint& point : series.points) {
    object["points"].push_back({{"commit", point.commit},
                                {"committed_at", point.committed_at},
                                {"median", point.median},
                                {"low", point.q1},
                                {"high", point.q3},
                                {"rounds", point.rounds},
                                {"segment", environment_text(series.segments[point.segment].environment)}});
  }
  for (const SeriesChange& change : series.changes) {
    object["changes"].push_back({{"at", change.point.index},
                                 {"commit", series.points[change.point.index].commit},
                                 {"before", change.point.before},
                                 {"after", change.point.after},
                                 {"p", change.point.p},
                                 {"accepted", change.accepted ? json(change.accepted->reason) : json()}});
  }
  return object;
}

const SeriesChange* change_at(const PerfSeries& series, std::size_t point) {
  for (const SeriesChange& change : series.changes) {
    if (change.point.index == point) return &change;
  }
  return nullptr;
}

std::string change_text(const SeriesChange& change) {
  return fmt::format("{:+.1f} % (p = {:.3f}){}", 100 * change.point.change(), change.point.p,
                     change.accepted ? ", accepted: " + change.accepted->reason : "");
}

// Every commit of one case.
std::string one_series(const PerfSeries& series) {
  TextTable table({{"commit"}, {"committed at"}, {"us", true}, {"quartiles"}, {"rounds", true}, {"change"}});
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const SeriesPoint& point = series.points[i];
    std::string note;
    if (const SeriesChange* change = change_at(series, i)) note = change_text(*change);
    if (i > 0 && point.segment != series.points[i - 1].segment)
      note = "from here on: " + environment_text(series.segments[point.segment].environment);
    table.add({point.commit.substr(0, 12), point.committed_at, fmt::format("{:.3f}", point.median),
               fmt::format("[{:.3f}, {:.3f}]", point.q1, point.q3), std::to_string(point.rounds), note});
  }
  return fmt::format("{} ({}, {}, {})\n{}", series.key.name, series.key.operator_name, series.key.device_class,
                     series.key.cache_policy, table.plain());
}

// A line for each case, and one for each change.
std::string all_series(const std::vector<PerfSeries>& all) {
  TextTable cases({{"case"},
                   {"operator"},
                   {"device class"},
                   {"commits", true},
                   {"first us", true},
                   {"last us", true},
                   {"changes", true}});
  TextTable changes({{"commit"}, {"case"}, {"change"}});
  for (const PerfSeries& series : all) {
    cases.add({series.key.name, series.key.operator_name, series.key.device_class, std::to_string(series.points.size()),
               fmt::format("{:.3f}", series.points.front().median), fmt::format("{:.3f}", series.points.back().median),
               std::to_string(series.changes.size())});
    for (const SeriesChange& change : series.changes)
      changes.add({series.points[change.point.index].commit.substr(0, 12), series.key.name, change_text(change)});
  }
  return cases.plain() + (changes.empty() ? "" : "\n" + changes.plain());
}

}  // namespace

Result<int> perf_history(const PerfOptions& options) {
  SPARSMITH_RETURN_IF_ERROR(
      check_outputs({options.database}, {{"--html", options.html, OutputKind::kPage}}, options.force));
  SPARSMITH_ASSIGN_OR_RETURN(PerfStore store, PerfStore::open(options.database, PerfStore::Mode::kReadOnly));
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<PerfSeries> all,
                             load_series(store, {.branch = options.branch, .case_name = options.case_name}));
  if (all.empty())
    return not_found(fmt::format("{}: nothing is recorded{}{}", store.path(),
                                 options.branch.empty() ? "" : " of branch " + options.branch,
                                 options.case_name.empty() ? "" : " for case " + options.case_name));
  if (!options.html.empty())
    SPARSMITH_RETURN_IF_ERROR(write_file_atomically(options.html, html_of(history_page(store.path(), all))));
  if (options.json) {
    json object = {{"history", json::array()}};
    for (const PerfSeries& series : all) object["history"].push_back(json_of(series));
    print_json(object);
  } else if (options.case_name.empty()) {
    print("{}", all_series(all));
  } else {
    for (const PerfSeries& series : all) print("{}", one_series(series));
  }
  return static_cast<int>(kDone);
}

Result<int> perf_mark(const PerfOptions& options) {
  SPARSMITH_ASSIGN_OR_RETURN(PerfStore store, PerfStore::open(options.database, PerfStore::Mode::kReadWrite));
  PerfMark mark = options.mark;
  SPARSMITH_ASSIGN_OR_RETURN(mark.commit, store.resolve(mark.commit));
  SPARSMITH_RETURN_IF_ERROR(store.mark(mark));
  const std::string where = mark.case_name.empty() ? "every case" : mark.case_name;
  if (options.json) {
    print_json(json{{"commit", mark.commit}, {"case", mark.case_name}, {"reason", mark.reason}});
  } else {
    print("accepted {} for {}: {}\n", mark.commit, where, mark.reason);
  }
  return static_cast<int>(kDone);
}

}  // namespace sparsmith::tools
