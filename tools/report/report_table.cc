#include "tools/report/report_table.h"

#include <fmt/format.h>

#include <map>

#include "tools/report/simulation_figures.h"
#include "tools/report/sparkline.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kSparklineWidth = 48;

std::string speedup_lines(const TuningResults& results) {
  std::map<std::int64_t, std::vector<double>> by_tokens;
  std::vector<double> all;
  for (const ResultCase& one : results.cases) {
    if (!one.measured || one.us <= 0 || one.cublas_us <= 0) continue;
    by_tokens[one.tokens].push_back(one.cublas_us / one.us);
    all.push_back(one.cublas_us / one.us);
  }
  if (all.empty())
    return fmt::format("{}: {} choices, none measured beside dense\n", results.source, results.cases.size());
  std::string text =
      fmt::format("{}: {:.3f}x dense in {} cases (geometric mean)", results.source, geometric_mean(all), all.size());
  const char* separator = "; ";
  for (const auto& [tokens, ratios] : by_tokens) {
    text += fmt::format("{}N = {}: {:.2f}x", separator, tokens, geometric_mean(ratios));
    separator = ", ";
  }
  return text + "\n";
}

std::string history_lines(const PerformanceHistory& history) {
  std::string text;
  for (const HistorySeries& series : history.series) {
    if (series.points.empty()) continue;
    std::vector<double> medians;
    for (const HistorySeries::Point& point : series.points) medians.push_back(point.median);
    text += fmt::format("{}  {}  {:.4g} -> {:.4g} {}, {} changes\n", sparkline(medians, kSparklineWidth), series.name,
                        medians.front(), medians.back(), series.unit, series.changes.size());
  }
  return text;
}

std::string break_even_lines(const BreakEvenResults& results) {
  std::string text;
  for (const BreakEvenCase& one : results.cases) {
    text += fmt::format("{}: break-even for N = {} {}\n", one.name, one.tokens,
                        one.sparse_at ? fmt::format("at {}{:.1f} %", one.dense_at ? "" : "most ", 100 * *one.sparse_at)
                                      : "was not reached");
  }
  return text;
}

std::string simulation_lines(const SimulationResults& results) {
  std::string text;
  for (const StrategyMean& mean : strategy_means(results)) {
    text += fmt::format("{}: {:.1f} candidates, {:.3f} of the best recorded in {} spaces\n", mean.name, mean.tried,
                        mean.regret, mean.spaces);
  }
  return text;
}

}  // namespace

std::string report_table(const ReportInputs& inputs) {
  std::string text;
  for (const LayerAnalysis& analysis : inputs.analyses)
    text +=
        fmt::format("{}: {} weights, {} left out\n", analysis.source, analysis.layers.size(), analysis.skipped.size());
  for (const TuningResults& results : inputs.results) text += speedup_lines(results);
  for (const BreakEvenResults& results : inputs.break_evens) text += break_even_lines(results);
  for (const SimulationResults& results : inputs.simulations) text += simulation_lines(results);
  for (const PerformanceHistory& history : inputs.histories) text += history_lines(history);
  return text;
}

}  // namespace sparsmith::tools
