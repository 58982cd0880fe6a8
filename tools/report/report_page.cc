#include "tools/report/report_page.h"

#include <algorithm>
#include <map>

#include "tools/report/analysis_figures.h"
#include "tools/report/break_even_figures.h"
#include "tools/report/history_figures.h"
#include "tools/report/simulation_figures.h"
#include "tools/report/suite_figures.h"
#include "tools/report/tuning_figures.h"

namespace sparsmith::tools {
namespace {

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
  return !results.bytes.empty() ||
         std::ranges::any_of(results.cases, [](const ResultCase& one) { return one.bytes_moved > 0 || !one.measured; });
}

}  // namespace

Page report_page(const std::string& title, const ReportInputs& inputs) {
  Page page{.title = title};
  for (const auto& [device, cases] : measured_by_device(inputs.results))
    page.sections.push_back(suite_section(device, cases));
  for (const TuningResults& results : inputs.results) {
    if (has_details(results)) page.sections.push_back(tuning_section(results));
  }
  for (const BreakEvenResults& results : inputs.break_evens) page.sections.push_back(break_even_section(results));
  for (const SimulationResults& results : inputs.simulations) page.sections.push_back(simulation_section(results));
  for (const LayerAnalysis& analysis : inputs.analyses) page.sections.push_back(analysis_section(analysis));
  for (const PerformanceHistory& history : inputs.histories) page.sections.push_back(history_section(history));
  return page;
}

}  // namespace sparsmith::tools
