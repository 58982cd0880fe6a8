#include "tools/report/simulation_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace sparsmith::tools {
namespace {

Colour colour_of(std::size_t index) { return static_cast<Colour>(index % kColours); }

Figure curve_figure(const std::vector<StrategyMean>& means) {
  Figure figure;
  figure.title = "Best found against candidates tried";
  figure.caption =
      "Time of the best candidate that was found over that of the best recorded, geometric mean over all spaces. A "
      "search that has ended stays where it was.";
  figure.x = {.label = "candidates tried", .low = 0};
  figure.y = {.label = "best found / best recorded", .scale = Scale::kLog};
  for (const StrategyMean& mean : means) {
    Series series{.kind = Series::Kind::kLine, .name = mean.name, .colour = colour_of(figure.series.size())};
    for (std::size_t i = 0; i < mean.curve.size(); ++i) {
      series.x.push_back(static_cast<double>(i + 1));
      series.y.push_back(mean.curve[i]);
      series.labels.push_back(fmt::format("{}, {} candidates: {:.3f}", mean.name, i + 1, mean.curve[i]));
    }
    if (!series.x.empty()) figure.series.push_back(std::move(series));
  }
  figure.rules.push_back({.text = "best recorded", .y = 1});
  return figure;
}

HtmlTable space_table(const SimulationResults& results, const std::vector<StrategyMean>& means) {
  HtmlTable table;
  table.title = "Chosen over best, each space";
  table.columns = {{"space"}, {"recorded", true}, {"best us", true}, {"predicted choice", true}};
  for (const StrategyMean& mean : means) table.columns.push_back({mean.name, true});
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
  Section section;
  section.title = fmt::format("Searches of recorded spaces: {}", results.source);
  section.text = fmt::format("{} spaces.", results.spaces.size());
  for (const StrategyMean& mean : means) {
    section.text += fmt::format(" {}: {:.1f} candidates, geometric mean {:.3f} of the best recorded, worst run {:.3f}.",
                                mean.name, mean.tried, mean.regret, mean.worst);
  }
  if (results.spaces.empty()) return section;
  Figure curves = curve_figure(means);
  if (!curves.series.empty()) section.blocks.push_back({.figures = {std::move(curves)}});
  section.blocks.push_back({.table = space_table(results, means)});
  return section;
}

}  // namespace sparsmith::tools
