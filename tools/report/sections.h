// The sections of a report page: one function for each kind of result, in <kind>_figures.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// The maximum cells per side of a density map, and the maximum number of weights with maps and row lengths on a page.
inline constexpr std::int64_t kMapCells = 128;
inline constexpr std::size_t kDetailedLayers = 12;

// A model's sparsity: a card, and below it layers that differ from their like, bytes per format, row lengths and maps.
std::vector<Section> analysis_sections(const LayerAnalysis& analysis);

// The zeros of each weight beside those of its like in other layers, with the outliers marked (outliers.cc).
Section zeros_section(const LayerAnalysis& analysis);

// One run or file: the answer as a card, and below it layers, roofline, bytes and search. The first two are always
// there when there are choices.
std::vector<Section> tuning_sections(const TuningResults& results);
Section tuning_card(const TuningResults& results);

// The first case of each weight.
std::vector<const ResultCase*> first_cases(const std::vector<ResultCase>& cases);

// All measured cases of one device: speed-ups, the fastest implementation by sparsity and N, crossovers with dense.
// Cases without a peer are left out and counted in the section's text.
Section suite_section(const std::string& device, const std::vector<ResultCase>& cases);

// The N at which ours and dense take the same time, by linear interpolation of logarithms between neighbouring N. The
// first N with a dense choice counts too. 0: no such N.
//   cases: the cases of one weight, in ascending order of N.
double crossover_tokens(const std::vector<const ResultCase*>& cases);

// The sparsity from which sparse kernels are chosen, and the speed-ups by sparsity.
Section break_even_section(const BreakEvenResults& results);

// The means of a strategy over all spaces.
struct StrategyMean {
  std::string name;
  std::size_t spaces = 0;
  double tried = 0;
  double regret = 1;  // geometric mean
  double worst = 1;
  std::vector<double> curve{};  // geometric mean; a finished search keeps its last value
};

// In the order of their first occurrence.
std::vector<StrategyMean> strategy_means(const SimulationResults& results);

// The best found / the best recorded, against candidates tried; and the figures of each space.
Section simulation_section(const SimulationResults& results);

// A full hash as its first 9 letters; other names of commits unchanged.
std::string short_commit(const std::string& commit);

// Performance over commits: changes of the level, and medians with their bands.
Section history_section(const PerformanceHistory& history);

}  // namespace sparsmith::tools
