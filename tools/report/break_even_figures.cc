#include "tools/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kShownFacts = 6;

std::string break_even_text(const BreakEvenCase& one) {
  if (!one.sparse_at) return "dense stays up to " + percent(one.dense_at.value_or(1));
  if (!one.dense_at) return "at most " + percent(*one.sparse_at);
  return fmt::format("between {} and {}", percent(*one.dense_at), percent(*one.sparse_at));
}

// One series for each way of drawing, over N.
Figure break_even_figure(const BreakEvenResults& results) {
  Figure figure{.title = "Break-even sparsity",
                .caption =
                    "The lowest share of zeros from which on a sparse kernel is chosen; the whisker goes down to "
                    "the highest at which dense stays. Without a whisker, nothing lower was looked at.",
                .x = {.label = "N, tokens", .scale = Scale::kLog},
                .y = {.label = "share of zeros", .low = 0, .high = 1}};
  std::map<std::string, Series> by_name;
  for (const BreakEvenCase& one : results.cases) {
    const auto tokens = static_cast<double>(one.tokens);
    if (std::ranges::find(figure.x.ticks, tokens) == figure.x.ticks.end()) figure.x.ticks.push_back(tokens);
    if (!one.sparse_at) continue;
    Series& series = by_name[one.name];
    series.add(one.tokens, *one.sparse_at, fmt::format("{}, N = {}: {}", one.name, one.tokens, break_even_text(one)));
    series.add_interval(one.dense_at.value_or(*one.sparse_at), *one.sparse_at);
  }
  for (auto& [name, series] : by_name) {
    series.kind = Series::Kind::kPoints;
    series.name = name;
    series.colour = colour_of(figure.series.size());
    figure.add(std::move(series));
  }
  return figure;
}

// A line for each N.
Figure speedup_figure(const BreakEvenResults& results) {
  Figure figure{.title = "Speed-up over dense on the way there",
                .caption = "Dense over the choice, at each sparsity that was looked at. At 1 dense stays.",
                .x = {.label = "share of zeros"},
                .y = {.label = "dense / choice", .scale = Scale::kLog},
                .rules = {{.text = "dense", .y = 1}}};
  for (const BreakEvenCase& one : results.cases) {
    Series series{.name = fmt::format("{}, N = {}", one.name, one.tokens),
                  .colour = colour_of(figure.series.size()),
                  .dashed = figure.series.size() >= kColours};
    for (const BreakEvenCase::Probe& probe : one.probes) {
      if (probe.us <= 0 || probe.dense_us <= 0) continue;
      series.add(probe.sparsity, probe.dense_us / probe.us,
                 fmt::format("{}: {} {:.2f} us, dense {:.2f} us", percent(probe.sparsity), probe.choice, probe.us,
                             probe.dense_us));
    }
    figure.add(std::move(series));
  }
  return figure;
}

Table break_even_table(const BreakEvenResults& results) {
  Table table{.title = "Break-even", .columns = {"weights", ">N", "from", "changes once", ">measured at"}};
  for (const BreakEvenCase& one : results.cases)
    table.add(one.name, one.tokens, break_even_text(one), one.changes_once ? "yes" : "NO", one.probes.size());
  return table;
}

}  // namespace

Section break_even_section(const BreakEvenResults& results) {
  const bool measured = std::ranges::all_of(results.cases, [](const BreakEvenCase& one) {
    return std::ranges::all_of(one.probes, &BreakEvenCase::Probe::measured);
  });
  Section section{.title = fmt::format("Break-even of {}", file_name(results.source)),
                  .text = fmt::format("{}: drawn weights, each tuned, {}.", results.device,
                                      measured ? "all measured" : "PREDICTED")};
  if (results.cases.empty()) return section;
  section.card = Card{};
  for (const BreakEvenCase& one : results.cases) {
    if (section.card->facts.size() == kShownFacts || one.name != results.cases.front().name) break;
    section.card->facts.push_back({fmt::format("sparse from, N = {}", one.tokens),
                                   one.sparse_at ? percent(*one.sparse_at) : "nowhere", break_even_text(one)});
  }
  section.add({.figures = {break_even_figure(results)}, .table = break_even_table(results)});
  section.add({.figures = {speedup_figure(results)}});
  return section;
}

}  // namespace sparsmith::tools
