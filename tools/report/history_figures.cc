#include "tools/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "tools/report/layers.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kShownSeries = 60;
constexpr std::size_t kLabelledPoints = 300;  // of a series: more marks than that only slow a page down

std::string change_text(const HistorySeries::Change& change) {
  if (change.before <= 0) return "change";
  return fmt::format("{:+.1f} %", 100 * (change.after / change.before - 1));
}

// "c26f9ea, 2026-01-31"; without a date the commit alone.
std::string commit_text(const HistorySeries::Point& point, const char* between = ", ") {
  return short_commit(point.commit) + (point.date.empty() ? "" : between + point.date);
}

// How the series' values are shown: times in the unit that suits the level, other units as they are.
struct Shown {
  std::string unit;
  double size = 1;  // of the unit, in the series' own

  explicit Shown(const HistorySeries& series) : unit(series.unit) {
    if (series.unit != "us") return;
    const TimeUnit suits = time_unit(median_of(series));
    unit = suits.name;
    size = suits.microseconds;
  }
  std::string text(double value) const { return fmt::format("{:.4g} {}", value / size, unit); }

  static double median_of(const HistorySeries& series) {
    std::vector<double> medians;
    for (const HistorySeries::Point& point : series.points) medians.push_back(point.median);
    const auto middle = medians.begin() + static_cast<std::ptrdiff_t>(medians.size() / 2);
    std::ranges::nth_element(medians, middle);
    return *middle;
  }
};

// The level between changes, as the detection has it.
Series levels_of(const HistorySeries& series, const Shown& shown) {
  Series steps{.kind = Series::Kind::kSteps, .name = "level", .colour = Colour::kVermillion};
  if (series.changes.empty()) return steps;
  steps.add(0, series.changes.front().before / shown.size);
  for (const HistorySeries::Change& change : series.changes) steps.add(change.at, change.after / shown.size);
  steps.add(series.points.size() - 1, series.changes.back().after / shown.size);
  return steps;
}

Figure figure_of(const HistorySeries& series) {
  constexpr double kLeastRange = 0.1;  // of the median, both ways: noise of 0.2 % must not look wild
  const Shown shown(series);
  const double level = Shown::median_of(series) / shown.size;
  Figure figure{.title = series.name,
                .caption = series.detail,
                .x = {.label = "commit, oldest first", .scale = Scale::kCategories, .thinned = true},
                .y = {.label = fmt::format("median, {}", shown.unit),
                      .low = (1 - kLeastRange) * level,
                      .high = (1 + kLeastRange) * level}};
  Series band{.kind = Series::Kind::kBand, .name = "interval"};
  Series medians{.name = "median"};
  std::string segment;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const HistorySeries::Point& point = series.points[i];
    const auto x = static_cast<double>(i);
    figure.x.categories.push_back(commit_text(point, "\n"));
    band.x.push_back(x);
    band.add_interval(point.low / shown.size, point.high / shown.size);
    medians.add(x, point.median / shown.size);
    if (i > 0 && point.segment != segment) figure.rules.push_back({.text = "other environment", .x = x - 0.5});
    segment = point.segment;
    if (series.points.size() > kLabelledPoints) continue;
    medians.labels.push_back(fmt::format("{}: {} [{:.4g}, {:.4g}]", commit_text(point), shown.text(point.median),
                                         point.low / shown.size, point.high / shown.size));
  }
  figure.series = {std::move(band), std::move(medians)};
  figure.add(levels_of(series, shown));
  for (const HistorySeries::Change& change : series.changes) {
    const std::string accepted = change.accepted.empty() ? "" : " accepted";
    figure.notes.push_back({static_cast<double>(change.at), change.after / shown.size, change_text(change) + accepted});
  }
  return figure;
}

Table case_table(const std::vector<const HistorySeries*>& shown) {
  Table table{.title = "Cases", .columns = {"case", ">commits", ">first", ">last", ">last over first", ">changes"}};
  for (const HistorySeries* series : shown) {
    const Shown as(*series);
    const double first = series->points.front().median;
    const double last = series->points.back().median;
    table.add(series->name, series->points.size(), as.text(first), as.text(last), ratio_text(last, first),
              series->changes.size());
  }
  return table;
}

Table change_table(const PerformanceHistory& history) {
  Table table{.title = "Changes", .columns = {"case", "commit", ">before", ">after", ">change", "accepted because"}};
  for (const HistorySeries& series : history.series) {
    for (const HistorySeries::Change& change : series.changes) {
      if (change.at >= series.points.size()) continue;
      const HistorySeries::Point& point = series.points[change.at];
      const Shown shown(series);
      table.add(series.name, commit_text(point), shown.text(change.before), shown.text(change.after),
                change_text(change), change.accepted);
    }
  }
  return table;
}

Table environment_table(const PerformanceHistory& history) {
  Table table{.title = "Environments, each from its first commit on", .columns = {"case", "commit", "environment"}};
  for (const HistorySeries& series : history.series) {
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      const HistorySeries::Point& point = series.points[i];
      if (point.segment.empty() || (i > 0 && point.segment == series.points[i - 1].segment)) continue;
      table.add(series.name, commit_text(point), point.segment);
    }
  }
  return table;
}

}  // namespace

std::string short_commit(const std::string& commit) {
  const bool is_hash = commit.size() == 40 && commit.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_hash ? commit.substr(0, 9) : commit;
}

Section history_section(const PerformanceHistory& history) {
  Section section{.title = "Performance history of " + file_name(history.source)};
  // Cases with changes first: they are what one looks for.
  std::vector<const HistorySeries*> shown;
  for (const HistorySeries& series : history.series) {
    if (!series.points.empty()) shown.push_back(&series);
  }
  std::ranges::stable_sort(shown, std::greater<>(), [](const HistorySeries* series) { return series->changes.size(); });
  const auto commits = shown.empty() ? 0 : std::ranges::max(shown, {}, [](const HistorySeries* series) {
                                             return series->points.size();
                                           })->points.size();
  const auto changed = std::ranges::count_if(shown, [](const HistorySeries* one) { return !one->changes.empty(); });
  section.card = Card{.facts = {{"cases", std::to_string(shown.size()), fmt::format("at most {} commits", commits)},
                                {"with changes of level", std::to_string(changed)}}};
  if (shown.size() > kShownSeries)
    section.text = fmt::format("{} of {} cases have a figure.", kShownSeries, shown.size());
  section.add({.table = change_table(history)});
  section.add({.table = case_table(shown)});
  if (shown.size() > kShownSeries) shown.resize(kShownSeries);
  Block block{.text = "Line: median of each commit; band: its interval; steps: the level between changes."};
  for (const HistorySeries* series : shown) block.figures.push_back(figure_of(*series));
  section.add(std::move(block));
  section.add({.table = environment_table(history)});
  return section;
}

}  // namespace sparsmith::tools
