#include "tools/report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/file.h"
#include "tools/report/report_input.h"
#include "tools/report/sections.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kSparklineWidth = 48;

std::string speedup_lines(const TuningResults& results) {
  std::map<std::int64_t, std::vector<double>> by_tokens;
  std::vector<double> all;
  for (const ResultCase& one : results.cases) {
    if (!one.measured || one.speedup() <= 0) continue;
    by_tokens[one.tokens].push_back(one.speedup());
    all.push_back(one.speedup());
  }
  if (all.empty())
    return fmt::format("{}: {} choices, none measured beside dense\n", results.source, results.cases.size());
  std::vector<std::string> means;
  for (const auto& [tokens, ratios] : by_tokens)
    means.push_back(fmt::format("N = {}: {:.2f}x", tokens, geometric_mean(ratios)));
  return fmt::format("{}: {:.3f}x dense in {} cases (geometric mean); {}\n", results.source, geometric_mean(all),
                     all.size(), fmt::join(means, ", "));
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

// What was measured, by device: times of several devices, and predictions, do not belong into one figure.
std::map<std::string, std::vector<ResultCase>> measured_by_device(const std::vector<TuningResults>& all) {
  std::map<std::string, std::vector<ResultCase>> cases;
  for (const TuningResults& results : all) {
    for (const ResultCase& one : results.cases) {
      if (one.measured) cases[results.device].push_back(one);
    }
  }
  return cases;
}

// A suite's cells say nothing of their runs: the figures over all cases are all there is to show.
bool has_details(const TuningResults& results) {
  return std::ranges::any_of(
      results.cases, [](const ResultCase& one) { return one.dense_bytes > 0 || one.bytes_moved > 0 || !one.measured; });
}

std::size_t count_of(const ReportInputs& inputs) {
  return inputs.analyses.size() + inputs.results.size() + inputs.break_evens.size() + inputs.simulations.size() +
         inputs.histories.size();
}

void add(std::vector<Section>& sections, std::vector<Section> added) {
  sections.insert(sections.end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
}

// All results of one run, with the speed-ups behind the layers.
std::vector<Section> run_sections(const TuningResults& results) {
  std::vector<Section> sections = tuning_sections(results);
  constexpr std::ptrdiff_t kBehindLayers = 2;
  for (const auto& [device, cases] : measured_by_device({results})) {
    Section speedups = suite_section(device, cases);
    speedups.below = true;
    if (!speedups.blocks.empty()) sections.insert(sections.begin() + kBehindLayers, std::move(speedups));
  }
  return sections;
}

}  // namespace

Page report_page(const std::string& title, const ReportInputs& inputs) {
  Page page{.title = title};
  std::vector<Section>& sections = page.sections;
  const bool alone = count_of(inputs) == 1;
  if (alone && !inputs.results.empty() && has_details(inputs.results.front())) {
    sections = run_sections(inputs.results.front());
  } else {
    for (const auto& [device, cases] : measured_by_device(inputs.results))
      sections.push_back(suite_section(device, cases));
    for (const TuningResults& results : inputs.results)
      if (has_details(results)) add(sections, tuning_sections(results));
  }
  for (const BreakEvenResults& results : inputs.break_evens) sections.push_back(break_even_section(results));
  for (const SimulationResults& results : inputs.simulations) sections.push_back(simulation_section(results));
  for (const LayerAnalysis& analysis : inputs.analyses) add(sections, analysis_sections(analysis));
  for (const PerformanceHistory& history : inputs.histories) sections.push_back(history_section(history));
  if (!title.empty()) return page;
  // The only part is the page.
  const bool one_part = std::ranges::count(sections, false, &Section::below) == 1;
  page.title =
      one_part ? std::exchange(sections.front().title, "") : fmt::format("Report of {} results", count_of(inputs));
  return page;
}

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

Status write_page(const std::string& path, const std::string& kind, std::string_view json, const std::string& source) {
  if (path.empty()) return {};
  ReportInputs inputs;
  SPARSMITH_RETURN_IF_ERROR(add_report_json(json, source, inputs));
  Page page = report_page("", inputs);
  page.title = fmt::format("{} of {}", kind, file_name(source));
  return write_file_atomically(path, html_of(page));
}

}  // namespace sparsmith::tools
