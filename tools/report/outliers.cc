#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tools/report/layers.h"
#include "tools/report/sections.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

constexpr double kDeviations = 3;
constexpr double kNormal = 1.4826;    // of normal values: standard deviation over median absolute deviation
constexpr double kLeastShare = 0.05;  // of the median's nonzeros: pruners round, and equal values have no deviation
constexpr std::size_t kFewest = 4;    // weights that have a median worth a comparison
constexpr std::size_t kMostProjections = 40;  // as many rows can be read

// A weight's place in the model: the first number of its name is its layer, the rest its projection.
struct Place {
  std::string projection;  // "layers.*.q_proj.weight"; empty: the name has no number
  std::int64_t layer = 0;
};

Place place_of(const std::string& name) {
  std::vector<std::string> numbers;
  std::string projection = starred(name, &numbers);
  constexpr std::size_t kMostDigits = 9;
  if (numbers.empty() || numbers[0].size() > kMostDigits) return {};
  for (std::size_t i = 1, at = projection.find('*'); i < numbers.size(); ++i) {  // "experts.3" is another projection
    at = projection.find('*', at + 1);
    projection.replace(at, 1, numbers[i]);
  }
  return {std::move(projection), std::stoll(numbers[0])};
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Weights of one projection, and how far their zeros may lie from the median.
struct Projection {
  std::vector<const AnalyzedLayer*> layers{};
  double median = 0;
  double limit = 0;

  void judge() {
    std::vector<double> zeros;
    for (const AnalyzedLayer* layer : layers) zeros.push_back(layer->statistics.sparsity);
    median = median_of(zeros);
    for (double& each : zeros) each = std::abs(each - median);
    limit = std::max(kDeviations * kNormal * median_of(zeros), kLeastShare * (1 - median));
  }
  bool is_outlier(const AnalyzedLayer& layer) const {
    return layers.size() >= kFewest && std::abs(layer.statistics.sparsity - median) > limit;
  }
};

using Projections = std::map<std::string, Projection>;

Projections projections_of(const LayerAnalysis& analysis) {
  Projections all;
  for (const AnalyzedLayer& layer : analysis.layers) all[place_of(layer.name).projection].layers.push_back(&layer);
  for (auto& [name, projection] : all) projection.judge();
  return all;
}

// The names without the dotted parts that begin or end all of them: "q_proj" of "layers.*.q_proj.weight".
std::vector<std::string> distinct_parts(std::vector<std::string> names) {
  if (names.size() == 1) return names;
  const auto all_share = [&](const auto& part_of) {
    const std::string part = part_of(names.front());
    return !part.empty() && std::ranges::all_of(names, [&](const std::string& name) { return part_of(name) == part; });
  };
  const auto head = [](const std::string& name) { return name.substr(0, name.find('.') + 1); };
  const auto tail = [](const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? "" : name.substr(dot);
  };
  while (all_share(head))
    for (std::string& name : names) name.erase(0, head(name).size());
  while (all_share(tail))
    for (std::string& name : names) name.erase(name.size() - tail(name).size());
  return names;
}

std::string zeros_text(const AnalyzedLayer& layer) { return percent(layer.statistics.sparsity, 2); }

// Layers to the right, projections down: in the order of the file.
Figure zeros_map(const LayerAnalysis& analysis, const Projections& projections) {
  std::set<std::int64_t> layers;
  std::vector<std::string> rows;
  double least = 1;
  double most = 0;
  for (const AnalyzedLayer& layer : analysis.layers) {
    const Place place = place_of(layer.name);
    if (place.projection.empty()) continue;
    layers.insert(place.layer);
    if (std::ranges::find(rows, place.projection) == rows.end()) rows.push_back(place.projection);
    least = std::min(least, layer.statistics.sparsity);
    most = std::max(most, layer.statistics.sparsity);
  }
  Figure figure{.title = "Zeros by layer and projection",
                .x = {.label = "layer", .scale = Scale::kCategories, .thinned = true},
                .y = {.label = "projection", .scale = Scale::kCategories}};
  if (layers.size() < 2 || rows.size() > kMostProjections) return figure;
  std::ranges::reverse(rows);  // the axis goes up
  figure.caption = fmt::format(
      "Each tile: the share of zeros of one weight, {} (dark) to {} (bright). Marked: an outlier of its projection.",
      percent(least, 2), percent(most, 2));
  figure.shades = {percent(least, 1) + " zeros", percent(most, 1)};
  for (const std::int64_t layer : layers) figure.x.categories.push_back(std::to_string(layer));
  figure.y.categories = distinct_parts(rows);
  Series tiles{.kind = Series::Kind::kTiles};
  Series outliers{.kind = Series::Kind::kPoints, .name = "outlier", .colour = Colour::kVermillion};
  for (const AnalyzedLayer& layer : analysis.layers) {
    const Place place = place_of(layer.name);
    if (place.projection.empty()) continue;
    const auto x = std::distance(layers.begin(), layers.find(place.layer));
    const auto y = static_cast<double>(std::ranges::find(rows, place.projection) - rows.begin());
    const double zeros = layer.statistics.sparsity;
    const std::string label = fmt::format("{}: {} zeros", layer.name, zeros_text(layer));
    tiles.add(x, y, label);
    tiles.shades.push_back(most > least ? (zeros - least) / (most - least) : 0.5);
    const Projection& projection = projections.at(place.projection);
    if (projection.is_outlier(layer))
      outliers.add(x, y, fmt::format("{}, median {}", label, percent(projection.median, 2)));
  }
  figure.add(std::move(tiles));
  figure.add(std::move(outliers));
  return figure;
}

// The largest difference first.
Table outlier_table(const LayerAnalysis& analysis, const Projections& projections) {
  struct Outlier {
    const AnalyzedLayer* layer;
    const Projection* projection;
    double difference() const { return layer->statistics.sparsity - projection->median; }
  };
  std::vector<Outlier> outliers;
  for (const AnalyzedLayer& layer : analysis.layers) {
    const Projection& projection = projections.at(place_of(layer.name).projection);
    if (projection.is_outlier(layer)) outliers.push_back({&layer, &projection});
  }
  std::ranges::stable_sort(outliers, std::greater<>(), [](const Outlier& one) { return std::abs(one.difference()); });
  Table table{.title = "Outliers", .columns = {"weight", ">zeros", ">median", ">difference"}};
  for (const Outlier& one : outliers)
    table.add(one.layer->name, zeros_text(*one.layer), percent(one.projection->median, 2),
              fmt::format("{:+.2f} points", 100 * one.difference()));
  return table;
}

Table median_table(const Projections& projections) {
  Table table{.title = "Zeros of each projection", .columns = {"projection", ">weights", ">least", ">median", ">most"}};
  for (const auto& [name, projection] : projections) {
    const auto [least, most] = std::ranges::minmax_element(
        projection.layers, {}, [](const AnalyzedLayer* layer) { return layer->statistics.sparsity; });
    table.add(name.empty() ? "(names without numbers)" : name, projection.layers.size(), zeros_text(**least),
              percent(projection.median, 2), zeros_text(**most));
  }
  return table;
}

}  // namespace

Section zeros_section(const LayerAnalysis& analysis) {
  const Projections projections = projections_of(analysis);
  Table outliers = outlier_table(analysis, projections);
  Section section{.title = "Zeros", .below = true};
  section.text = fmt::format(
      "{} of {} weights are outliers. An outlier's share of zeros differs from the median of its projection by more "
      "than {:.0f} standard deviations (1.4826 median absolute deviations each) and by more than {:.0f} % of the "
      "median's nonzeros. A projection is the name without its first number; with fewer than {} weights it has no "
      "outliers.",
      outliers.rows.empty() ? "None" : std::to_string(outliers.rows.size()), analysis.layers.size(), kDeviations,
      100 * kLeastShare, kFewest);
  section.add({.figures = {zeros_map(analysis, projections)}, .table = std::move(outliers)});
  section.add({.table = median_table(projections)});
  return section;
}

}  // namespace sparsmith::tools
