#include "tools/perf_pages.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/perf_output.h"
#include "tools/report/history_figures.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kShownCases = 60;  // as many a row of one figure can name
constexpr std::size_t kShownRounds = 24;

HistorySeries series_of(const PerfSeries& series) {
  HistorySeries result;
  result.name = series.key.name;
  result.detail = fmt::format("{}, {}, {}", series.key.operator_name, series.key.device_class, series.key.cache_policy);
  for (const SeriesPoint& point : series.points) {
    result.points.push_back(
        {point.commit, point.median, point.q1, point.q3, environment_text(series.segments[point.segment].environment)});
  }
  for (const SeriesChange& change : series.changes) {
    result.changes.push_back(
        {change.point.index, change.point.before, change.point.after, change.accepted ? change.accepted->reason : ""});
  }
  return result;
}

Colour colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSlow: return Colour::kVermillion;
    case Verdict::kFast: return Colour::kGreen;
    case Verdict::kAmbiguous: return Colour::kOrange;
    case Verdict::kSame: return Colour::kNeutral;
  }
  return Colour::kNeutral;
}

// The measured rows, in the comparison's order: what changed comes first.
std::vector<const ComparisonRow*> shown_rows(const Comparison& comparison) {
  std::vector<const ComparisonRow*> rows;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.measured && rows.size() < kShownCases) rows.push_back(&row);
  }
  return rows;
}

Figure change_figure(const Comparison& comparison) {
  Figure figure;
  figure.title = "Change of each case";
  figure.caption = "Time of head over base; whiskers are the interval of 95 %.";
  figure.x = {.label = "case", .scale = Scale::kCategories};
  figure.y = {.label = "change, %"};
  const std::vector<const ComparisonRow*> rows = shown_rows(comparison);
  std::vector<Series> of_verdict;
  for (const Verdict verdict : {Verdict::kSlow, Verdict::kFast, Verdict::kAmbiguous, Verdict::kSame}) {
    Series points{.kind = Series::Kind::kPoints, .name = verdict_name(verdict), .colour = colour_of(verdict)};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i]->verdict != verdict) continue;
      const Finding& f = rows[i]->finding;
      points.x.push_back(static_cast<double>(i));
      points.y.push_back(100 * f.change);
      points.low.push_back(100 * f.change_low);
      points.high.push_back(100 * f.change_high);
      points.labels.push_back(fmt::format("{}: {:+.2f} % [{:+.2f}, {:+.2f}], {}", rows[i]->key.name, points.y.back(),
                                          points.low.back(), points.high.back(), cause_name(rows[i]->cause)));
    }
    if (!points.x.empty()) figure.series.push_back(std::move(points));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) figure.x.categories.push_back(std::to_string(i + 1));
  figure.rules.push_back({.text = "no change", .y = 0.0});
  return figure;
}

Series rounds_of(const char* name, Colour colour, const std::vector<double>& first, const std::vector<double>& again) {
  Series points{.kind = Series::Kind::kPoints, .name = name, .colour = colour};
  for (const std::vector<double>* set : {&first, &again}) {
    for (const double us : *set) {
      points.x.push_back(static_cast<double>(points.x.size() + 1));
      points.y.push_back(us);
    }
  }
  return points;
}

Figure rounds_figure(const ComparisonRow& row) {
  const TimeSet& first = row.first_times;
  const TimeSet& again = row.again_times;
  Figure figure;
  figure.title = fmt::format("{}: {}", verdict_name(row.verdict), row.key.name);
  figure.caption = row.reason;
  figure.x = {.label = "round"};
  figure.y = {.label = "us"};
  figure.series = {rounds_of("base", Colour::kBlue, first.base, again.base),
                   rounds_of("head", Colour::kVermillion, first.head, again.head)};
  double lowest = first.base.front();
  double highest = lowest;
  for (const Series& series : figure.series) {
    for (const double us : series.y) {
      lowest = std::min(lowest, us);
      highest = std::max(highest, us);
    }
  }
  figure.y.high = highest + 0.15 * (highest - lowest);  // room for the text of the rule
  const auto end = static_cast<double>(std::max(first.base.size(), first.head.size()));
  if (!again.base.empty()) figure.rules.push_back({.text = "measured again", .x = end + 0.5});
  return figure;
}

HtmlTable row_table(const Comparison& comparison) {
  HtmlTable table;
  table.columns = {{"case"},    {"no.", true},     {"verdict"},       {"cause"},   {"change", true},
                   {"p", true}, {"base us", true}, {"head us", true}, {"operator"}};
  int number = 0;
  for (const ComparisonRow& row : comparison.rows) {
    const Finding& f = row.finding;
    const auto figure = [&](const std::string& text) { return row.measured ? text : std::string("-"); };
    table.rows.push_back({row.key.name, figure(std::to_string(row.measured ? ++number : 0)),
                          std::string(verdict_name(row.verdict)) + (row.accepted ? " (accepted)" : ""),
                          cause_name(row.cause), figure(fmt::format("{:+.2f} %", 100 * f.change)),
                          figure(fmt::format("{:.2g}", f.p)), figure(fmt::format("{:.3f}", f.base.center)),
                          figure(fmt::format("{:.3f}", f.head.center)), row.key.operator_name});
  }
  return table;
}

// Why, and how to see it again: a line each.
HtmlTable reason_table(const Comparison& comparison) {
  HtmlTable table;
  table.title = "Why";
  table.columns = {{"case"}, {"what is known of it"}};
  for (const ComparisonRow& row : comparison.rows) {
    if (row.verdict == Verdict::kSame) continue;
    for (const std::string& line : comparison_details(row)) table.rows.push_back({row.key.name, line});
  }
  return table;
}

std::string plain_list(const std::vector<std::string>& lines) { return fmt::format("{}.", fmt::join(lines, "; ")); }

}  // namespace

std::string environment_text(const PerfEnvironment& environment) {
  std::string text = environment.device;
  if (!environment.driver.empty()) text += ", driver " + environment.driver;
  if (!environment.nvrtc.empty()) text += ", NVRTC " + environment.nvrtc;
  if (!environment.clocks.empty()) text += ", " + environment.clocks;
  return text;
}

Page history_page(const std::string& source, const std::vector<PerfSeries>& all) {
  PerformanceHistory history{.source = source};
  for (const PerfSeries& series : all) history.series.push_back(series_of(series));
  return {.title = "sparsmith performance history", .sections = {history_section(history)}};
}

Page comparison_page(const Comparison& comparison) {
  Page page{.title = fmt::format("{} against {}", comparison.head, comparison.base),
            .text = comparison_headline(comparison) + "."};
  Section cases{.title = "Cases", .text = plain_list(comparison_footnotes(comparison))};
  Block changes{.table = row_table(comparison)};
  if (!shown_rows(comparison).empty()) changes.figures.push_back(change_figure(comparison));
  cases.blocks.push_back(std::move(changes));
  page.sections.push_back(std::move(cases));

  Section changed{.title = "What is not the same", .text = "Each point is a round; smaller is faster."};
  Block rounds;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.measured && row.verdict != Verdict::kSame && rounds.figures.size() < kShownRounds)
      rounds.figures.push_back(rounds_figure(row));
  }
  if (!rounds.figures.empty()) changed.blocks.push_back(std::move(rounds));
  HtmlTable reasons = reason_table(comparison);
  if (!reasons.rows.empty()) changed.blocks.push_back({.table = std::move(reasons)});
  if (!changed.blocks.empty()) page.sections.push_back(std::move(changed));
  return page;
}

}  // namespace sparsmith::tools
