#include "tools/report/sections.h"

#include <fmt/format.h>

#include <algorithm>

namespace sparsmith::tools {
namespace {

constexpr std::size_t kShownSeries = 60;
constexpr std::size_t kLabelledPoints = 300;  // of a series: more marks than that only slow a page down

std::string change_text(const HistorySeries::Change& change) {
  if (change.before <= 0) return "change";
  return fmt::format("{:+.1f} %", 100 * (change.after / change.before - 1));
}

// The level between changes, as the detection has it.
Series levels_of(const HistorySeries& series) {
  Series steps{.kind = Series::Kind::kSteps, .name = "level", .colour = Colour::kVermillion};
  if (series.changes.empty()) return steps;
  steps.add(0, series.changes.front().before);
  for (const HistorySeries::Change& change : series.changes) steps.add(change.at, change.after);
  steps.add(series.points.size() - 1, series.changes.back().after);
  return steps;
}

Figure figure_of(const HistorySeries& series) {
  Figure figure{.title = series.name,
                .caption = series.detail,
                .x = {.label = "commit, oldest first"},
                .y = {.label = fmt::format("median, {}", series.unit)}};
  Series band{.kind = Series::Kind::kBand, .name = "interval"};
  Series medians{.name = "median"};
  std::string segment;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const HistorySeries::Point& point = series.points[i];
    const auto x = static_cast<double>(i);
    band.x.push_back(x);
    band.low.push_back(point.low);
    band.high.push_back(point.high);
    medians.add(x, point.median);
    if (i > 0 && point.segment != segment) figure.rules.push_back({.text = "other environment", .x = x - 0.5});
    segment = point.segment;
    if (series.points.size() > kLabelledPoints) continue;
    medians.labels.push_back(fmt::format("{}: {:.4g} {} [{:.4g}, {:.4g}]", short_commit(point.commit), point.median,
                                         series.unit, point.low, point.high));
  }
  figure.series = {std::move(band), std::move(medians)};
  figure.add(levels_of(series));
  for (const HistorySeries::Change& change : series.changes) {
    const std::string accepted = change.accepted.empty() ? "" : " accepted";
    figure.notes.push_back({static_cast<double>(change.at), change.after, change_text(change) + accepted});
  }
  return figure;
}

Table change_table(const PerformanceHistory& history) {
  Table table{.title = "Changes",
              .columns = {"case", "commit", ">place", ">before", ">after", ">change", "accepted because"}};
  for (const HistorySeries& series : history.series) {
    for (const HistorySeries::Change& change : series.changes) {
      if (change.at >= series.points.size()) continue;
      table.add(series.name, short_commit(series.points[change.at].commit), change.at,
                fmt::format("{:.4g} {}", change.before, series.unit),
                fmt::format("{:.4g} {}", change.after, series.unit), change_text(change), change.accepted);
    }
  }
  return table;
}

Table environment_table(const PerformanceHistory& history) {
  Table table{.title = "Environments, each from its first commit on",
              .columns = {"case", "commit", ">place", "environment"}};
  for (const HistorySeries& series : history.series) {
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      const HistorySeries::Point& point = series.points[i];
      if (point.segment.empty() || (i > 0 && point.segment == series.points[i - 1].segment)) continue;
      table.add(series.name, short_commit(point.commit), i, point.segment);
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
  Section section;
  section.title = fmt::format("Performance over commits: {}", history.source);
  // Cases with changes first: they are what one looks for.
  std::vector<const HistorySeries*> shown;
  for (const HistorySeries& series : history.series) {
    if (!series.points.empty()) shown.push_back(&series);
  }
  std::ranges::stable_sort(shown, std::greater<>(), [](const HistorySeries* series) { return series->changes.size(); });
  section.text =
      fmt::format("{} cases{}. Line: median; band: its interval; steps: the level between changes.", shown.size(),
                  shown.size() > kShownSeries ? fmt::format(", {} of them shown", kShownSeries) : "");
  if (shown.size() > kShownSeries) shown.resize(kShownSeries);
  section.add({.table = change_table(history)});
  Block block;
  for (const HistorySeries* series : shown) block.figures.push_back(figure_of(*series));
  section.add(std::move(block));
  section.add({.table = environment_table(history)});
  return section;
}

}  // namespace sparsmith::tools
