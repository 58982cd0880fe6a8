#include "tools/report/break_even_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

Colour colour_of(std::size_t index) { return static_cast<Colour>(index % kColours); }

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string break_even_text(const BreakEvenCase& one) {
  if (!one.sparse_at) return "dense stays up to " + percent(one.dense_at.value_or(1));
  if (!one.dense_at) return "at most " + percent(*one.sparse_at);
  return fmt::format("between {} and {}", percent(*one.dense_at), percent(*one.sparse_at));
}

// One series for each way of drawing, over N.
Figure break_even_figure(const BreakEvenResults& results) {
  Figure figure;
  figure.title = "Break-even sparsity";
  figure.caption =
      "The lowest share of zeros from which on a sparse kernel is chosen; the whisker goes down to the highest at "
      "which "
      "dense stays. Without a whisker, nothing lower was looked at.";
  figure.x = {.label = "N, tokens", .scale = Scale::kLog};
  figure.y = {.label = "share of zeros", .low = 0, .high = 1};
  std::map<std::string, Series> by_name;
  for (const BreakEvenCase& one : results.cases) {
    if (!one.sparse_at) continue;
    Series& series = by_name[one.name];
    series.x.push_back(static_cast<double>(one.tokens));
    series.y.push_back(*one.sparse_at);
    series.low.push_back(one.dense_at.value_or(*one.sparse_at));
    series.high.push_back(*one.sparse_at);
    series.labels.push_back(fmt::format("{}, N = {}: {}", one.name, one.tokens, break_even_text(one)));
  }
  for (auto& [name, series] : by_name) {
    series.kind = Series::Kind::kPoints;
    series.name = name;
    series.colour = colour_of(figure.series.size());
    figure.series.push_back(std::move(series));
  }
  return figure;
}

// A line for each N.
Figure speedup_figure(const BreakEvenResults& results) {
  Figure figure;
  figure.title = "Speed-up over dense on the way there";
  figure.caption = "Dense over the choice, at each sparsity that was looked at. At 1 dense stays.";
  figure.x = {.label = "share of zeros"};
  figure.y = {.label = "dense / choice", .scale = Scale::kLog};
  for (const BreakEvenCase& one : results.cases) {
    Series series{.kind = Series::Kind::kLine,
                  .name = fmt::format("{}, N = {}", one.name, one.tokens),
                  .colour = colour_of(figure.series.size()),
                  .dashed = figure.series.size() >= kColours};
    for (const BreakEvenCase::Probe& probe : one.probes) {
      if (probe.us <= 0 || probe.dense_us <= 0) continue;
      series.x.push_back(probe.sparsity);
      series.y.push_back(probe.dense_us / probe.us);
      series.labels.push_back(fmt::format("{}: {} {:.2f} us, dense {:.2f} us", percent(probe.sparsity), probe.choice,
                                          probe.us, probe.dense_us));
    }
    if (!series.x.empty()) figure.series.push_back(std::move(series));
  }
  figure.rules.push_back({.text = "dense", .y = 1});
  return figure;
}

HtmlTable break_even_table(const BreakEvenResults& results) {
  HtmlTable table;
  table.title = "Break-even";
  table.columns = {{"weights"}, {"N", true}, {"from"}, {"changes once"}, {"measured at", true}};
  for (const BreakEvenCase& one : results.cases) {
    table.rows.push_back({one.name, std::to_string(one.tokens), break_even_text(one), one.changes_once ? "yes" : "NO",
                          std::to_string(one.probes.size())});
  }
  return table;
}

}  // namespace

Section break_even_section(const BreakEvenResults& results) {
  Section section;
  section.title = fmt::format("Break-even: {}", results.source);
  const bool measured = std::ranges::all_of(results.cases, [](const BreakEvenCase& one) {
    return std::ranges::all_of(one.probes, &BreakEvenCase::Probe::measured);
  });
  section.text =
      fmt::format("{}: drawn weights, each tuned, {}.", results.device, measured ? "all measured" : "PREDICTED");
  if (results.cases.empty()) return section;
  Figure break_even = break_even_figure(results);
  if (!break_even.series.empty()) section.blocks.push_back({.figures = {std::move(break_even)}});
  Figure speedups = speedup_figure(results);
  if (!speedups.series.empty()) section.blocks.push_back({.figures = {std::move(speedups)}});
  section.blocks.push_back({.table = break_even_table(results)});
  return section;
}

}  // namespace sparsmith::tools
