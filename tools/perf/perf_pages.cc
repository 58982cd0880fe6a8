#include "tools/perf/perf_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/perf/perf_output.h"
#include "tools/report/sections.h"

namespace sparsmith::tools {
namespace {

using nlohmann::json;

constexpr std::size_t kShownCases = 60;  // as many a row of one figure can name
constexpr std::size_t kShownRounds = 24;
constexpr double kLeastChange = 5;  // %: axes reach as far both ways, so that noise of 0.2 % does not look wild

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

// The measured rows, in the comparison's order: what changed comes first.
std::vector<const ComparisonRow*> shown_rows(const Comparison& comparison) {
  std::vector<const ComparisonRow*> rows;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.measured && rows.size() < kShownCases) rows.push_back(&row);
  }
  return rows;
}

Figure change_figure(const Comparison& comparison) {
  Figure figure{.title = "Change of each case",
                .caption = "Time of head over base; whiskers are the interval of 95 %.",
                .x = {.label = "case", .scale = Scale::kCategories},
                .y = {.label = "change, %", .low = -kLeastChange, .high = kLeastChange},
                .rules = {{.text = "no change", .y = 0.0}}};
  const std::vector<const ComparisonRow*> rows = shown_rows(comparison);
  for (const auto& [verdict, colour] :
       {std::pair(Verdict::kSlow, Colour::kVermillion), std::pair(Verdict::kFast, Colour::kGreen),
        std::pair(Verdict::kAmbiguous, Colour::kOrange), std::pair(Verdict::kSame, Colour::kNeutral)}) {
    Series points{.kind = Series::Kind::kPoints, .name = std::string(verdict_name(verdict)), .colour = colour};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i]->verdict != verdict) continue;
      const Finding& f = rows[i]->first;
      points.add(i, 100 * f.change,
                 fmt::format("{}: {:+.2f} % [{:+.2f}, {:+.2f}], {}", rows[i]->key.name, 100 * f.change,
                             100 * f.change_low, 100 * f.change_high, cause_name(rows[i]->cause)));
      points.add_interval(100 * f.change_low, 100 * f.change_high);
    }
    figure.add(std::move(points));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) figure.x.categories.push_back(std::to_string(i + 1));
  return figure;
}

Series rounds_of(const char* name, Colour colour, const std::vector<double>& first, const std::vector<double>& again,
                 const TimeUnit& unit) {
  Series points{.kind = Series::Kind::kPoints, .name = name, .colour = colour};
  for (const std::vector<double>* set : {&first, &again}) {
    for (const double us : *set) {
      const std::size_t round = points.x.size() + 1;
      points.add(round, us / unit.microseconds, fmt::format("{}, round {}: {}", name, round, time_text(us)));
    }
  }
  return points;
}

Figure rounds_figure(const ComparisonRow& row) {
  const TimeSet& first = row.first_times;
  const TimeSet& again = row.again_times;
  const TimeUnit unit = time_unit(first.base.front());
  Figure figure{.title = row.key.name,
                .caption = fmt::format("{}: {}", verdict_text(row), row.reason),
                .x = {.label = "round"},
                .y = {.label = unit.name},
                .series = {rounds_of("base", Colour::kBlue, first.base, again.base, unit),
                           rounds_of("head", Colour::kVermillion, first.head, again.head, unit)}};
  const double level = first.base.front() / unit.microseconds;
  double lowest = (1 - kLeastChange / 100) * level;
  double highest = (1 + kLeastChange / 100) * level;
  for (const Series& series : figure.series) {
    lowest = std::min(lowest, std::ranges::min(series.y));
    highest = std::max(highest, std::ranges::max(series.y));
  }
  figure.y.low = lowest;
  figure.y.high = highest + 0.15 * (highest - lowest);  // room for the text of the rule
  const auto end = static_cast<double>(std::max(first.base.size(), first.head.size()));
  if (!again.base.empty()) figure.rules.push_back({.text = "measured again", .x = end + 0.5});
  return figure;
}

Table row_table(const Comparison& comparison) {
  Table table{.title = "Cases",
              .columns = {"case", ">no.", "verdict", "cause", ">change", ">p", ">base", ">head", "operator"}};
  int number = 0;
  for (const ComparisonRow& row : comparison.rows) {
    const Finding& f = row.first;
    const auto figure = [&](const std::string& text) { return row.measured ? text : "-"; };
    table.add(row.key.name, figure(std::to_string(row.measured ? ++number : 0)), verdict_text(row),
              cause_name(row.cause), figure(fmt::format("{:+.2f} %", 100 * f.change)),
              figure(fmt::format("{:.2g}", f.p)), figure(time_text(f.base.center)), figure(time_text(f.head.center)),
              row.key.operator_name);
  }
  return table;
}

// Why, and how to see it again: a line each.
Table reason_table(const Comparison& comparison) {
  Table table{.title = "Why", .columns = {"case", "what is known of it"}};
  for (const ComparisonRow& row : comparison.rows) {
    if (row.verdict == Verdict::kSame) continue;
    for (const std::string& line : comparison_details(row)) table.add(row.key.name, line);
  }
  return table;
}

}  // namespace

std::string environment_text(const PerfEnvironment& environment) {
  std::string text;
  for (const auto& [name, value] : {std::pair("", &environment.device), std::pair("driver ", &environment.driver),
                                    std::pair("NVRTC ", &environment.nvrtc), std::pair("", &environment.clocks)})
    if (!value->empty()) text += (text.empty() ? "" : ", ") + (name + *value);
  return text;
}

json history_json(const std::vector<PerfSeries>& all) {
  json object = {{"history", json::array()}};
  for (const PerfSeries& series : all) object["history"].push_back(json_of(series));
  return object;
}

Page comparison_page(const Comparison& comparison) {
  Page page{.title =
                fmt::format("Comparison of {} with {}", short_commit(comparison.head), short_commit(comparison.base))};
  Section cases{.title = ""};
  cases.card = Card{.tag = comparison_headline(comparison),
                    .warns = comparison.count(Verdict::kSlow) > 0,
                    .lines = comparison_footnotes(comparison)};
  Block changes{.table = reason_table(comparison)};
  if (!shown_rows(comparison).empty()) changes.figures.push_back(change_figure(comparison));
  cases.add(std::move(changes));
  cases.blocks.push_back({.table = row_table(comparison)});
  page.sections.push_back(std::move(cases));

  Section changed{
      .title = "Cases that are not the same", .below = true, .text = "Each point is a round; smaller is faster."};
  Block rounds;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.measured && row.verdict != Verdict::kSame && rounds.figures.size() < kShownRounds)
      rounds.figures.push_back(rounds_figure(row));
  }
  changed.add(std::move(rounds));
  if (!changed.blocks.empty()) page.sections.push_back(std::move(changed));
  return page;
}

}  // namespace sparsmith::tools
