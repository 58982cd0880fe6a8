#include "tools/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace sparsmith::tools {
namespace {

Figure curve_figure(const std::vector<StrategyMean>& means) {
  Figure figure{.title = "Best found against candidates tried",
                .caption =
                    "Time of the best candidate that was found over that of the best recorded, geometric mean over "
                    "all spaces. A search that has ended stays where it was.",
                .x = {.label = "candidates tried", .low = 0},
                .y = {.label = "best found / best recorded", .scale = Scale::kLog},
                .rules = {{.text = "best recorded", .y = 1}}};
  for (const StrategyMean& mean : means) {
    Series series{.name = mean.name, .colour = colour_of(figure.series.size())};
    for (std::size_t i = 0; i < mean.curve.size(); ++i) {
      series.add(i + 1, mean.curve[i], fmt::format("{}, {} candidates: {:.3f}", mean.name, i + 1, mean.curve[i]));
    }
    figure.add(std::move(series));
  }
  return figure;
}

Table space_table(const SimulationResults& results, const std::vector<StrategyMean>& means) {
  Table table{.title = "Chosen over best, each space",
              .columns = {"space", ">recorded", ">best us", ">predicted choice"}};
  for (const StrategyMean& mean : means) table.columns.push_back(">" + mean.name);
  for (const SimulatedSpace& space : results.spaces) {
    std::vector<std::string> row = {space.name, std::to_string(space.candidates), fmt::format("{:.2f}", space.best_us),
                                    fmt::format("{:.3f}", space.predicted)};
    for (const StrategyMean& mean : means) {
      const auto found = std::ranges::find(space.strategies, mean.name, &SimulatedStrategy::name);
      row.push_back(found == space.strategies.end() ? "-" : fmt::format("{:.3f}", found->regret));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::vector<StrategyMean> strategy_means(const SimulationResults& results) {
  std::vector<StrategyMean> means;
  std::size_t longest = 0;
  for (const SimulatedSpace& space : results.spaces) {
    for (const SimulatedStrategy& strategy : space.strategies) {
      longest = std::max(longest, strategy.curve.size());
      auto mean = std::ranges::find(means, strategy.name, &StrategyMean::name);
      if (mean == means.end()) mean = means.insert(means.end(), StrategyMean{.name = strategy.name});
      ++mean->spaces;
    }
  }
  for (StrategyMean& mean : means) {
    std::vector<double> logarithms(longest);
    double regret = 0;
    std::size_t curves = 0;
    for (const SimulatedSpace& space : results.spaces) {
      const auto found = std::ranges::find(space.strategies, mean.name, &SimulatedStrategy::name);
      if (found == space.strategies.end()) continue;
      mean.tried += found->tried / static_cast<double>(mean.spaces);
      regret += std::log(found->regret) / static_cast<double>(mean.spaces);
      mean.worst = std::max(mean.worst, found->worst);
      if (found->curve.empty()) continue;
      ++curves;
      for (std::size_t i = 0; i < longest; ++i)
        logarithms[i] += std::log(found->curve[std::min(i, found->curve.size() - 1)]);
    }
    mean.regret = std::exp(regret);
    if (curves == 0) continue;
    for (const double sum : logarithms) mean.curve.push_back(std::exp(sum / static_cast<double>(curves)));
  }
  return means;
}

Section simulation_section(const SimulationResults& results) {
  const std::vector<StrategyMean> means = strategy_means(results);
  Section section{.title = fmt::format("Searches of recorded spaces: {}", results.source),
                  .text = fmt::format("{} spaces.", results.spaces.size())};
  for (const StrategyMean& mean : means) {
    section.text += fmt::format(" {}: {:.1f} candidates, geometric mean {:.3f} of the best recorded, worst run {:.3f}.",
                                mean.name, mean.tried, mean.regret, mean.worst);
  }
  if (results.spaces.empty()) return section;
  section.add({.figures = {curve_figure(means)}});
  section.blocks.push_back({.table = space_table(results, means)});
  return section;
}

}  // namespace sparsmith::tools
