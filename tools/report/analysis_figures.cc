#include "tools/report/analysis_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/report/analysis_table.h"
#include "tools/report/format_curves.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kNamedLayers = 40;  // more names do not fit under an axis

std::string shape_of(const SparsityStatistics& s) { return fmt::format("{} × {}", s.rows, s.cols); }

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

// One position a layer: with its name where there is room, with its number otherwise.
Axis layer_axis(const LayerAnalysis& analysis) {
  Axis axis{.label = "weight, in the order of the file"};
  if (analysis.layers.size() > kNamedLayers) return axis;
  axis.label = "weight";
  axis.scale = Scale::kCategories;
  for (const AnalyzedLayer& layer : analysis.layers) axis.categories.push_back(layer.name);
  return axis;
}

HtmlTable layer_table(const LayerAnalysis& analysis) {
  HtmlTable table;
  table.columns = {{"weight"},           {"shape", true},      {"dtype"},
                   {"zeros", true},      {"row CoV", true},    {"max/mean", true},
                   {"empty rows", true}, {"column CoV", true}, {"b16 fill", true},
                   {"2:4 legal", true},  {"smallest format"}};
  for (const AnalyzedLayer& layer : analysis.layers) {
    const SparsityStatistics& s = layer.statistics;
    const SparsityStatistics::FormatBytes best = smallest_format(s);
    table.rows.push_back({layer.name, shape_of(s), std::string(short_name(s.data_type)), percent(s.sparsity),
                          fmt::format("{:.3f}", s.row_cov), fmt::format("{:.2f}", s.row_max_over_mean),
                          percent(s.empty_row_fraction), fmt::format("{:.3f}", s.column_cov),
                          fmt::format("{:.3f}", s.block_fill[2]), percent(s.two_four_legal),
                          fmt::format("{} {}", best.format, readable_bytes(best.bytes))});
  }
  return table;
}

Figure sparsity_per_layer(const LayerAnalysis& analysis) {
  Figure figure;
  figure.title = "Zeros per weight";
  figure.caption = "The share of each weight that is zero.";
  figure.x = layer_axis(analysis);
  figure.y = {.label = "zeros, %", .low = 0, .high = 100};
  Series bars{.kind = Series::Kind::kBars, .colour = Colour::kBlue};
  for (std::size_t i = 0; i < analysis.layers.size(); ++i) {
    const AnalyzedLayer& layer = analysis.layers[i];
    bars.x.push_back(static_cast<double>(i));
    bars.y.push_back(100 * layer.statistics.sparsity);
    bars.labels.push_back(fmt::format("{}: {}", layer.name, percent(layer.statistics.sparsity)));
  }
  figure.series.push_back(std::move(bars));
  return figure;
}

Figure row_histogram(const AnalyzedLayer& layer) {
  Figure figure;
  figure.title = fmt::format("{}: row lengths, CoV {:.3f}", layer.name, layer.statistics.row_cov);
  figure.x = {.label = "nonzeros in a row", .scale = Scale::kCategories};
  figure.y = {.label = "rows", .low = 0};
  Series bars{.kind = Series::Kind::kBars, .colour = Colour::kBlue};
  const std::vector<std::int64_t>& histogram = layer.statistics.row_length_histogram;
  const auto first = std::ranges::find_if(histogram, [](std::int64_t rows) { return rows > 0; });
  for (auto bin = static_cast<std::size_t>(first - histogram.begin()); bin < histogram.size(); ++bin) {
    bars.x.push_back(static_cast<double>(figure.x.categories.size()));
    bars.y.push_back(static_cast<double>(histogram[bin]));
    bars.labels.push_back(fmt::format("{} nonzeros: {} rows", histogram_bin_label(bin), histogram[bin]));
    figure.x.categories.push_back(histogram_bin_label(bin));
  }
  figure.series.push_back(std::move(bars));
  return figure;
}

Figure sorted_rows(const AnalyzedLayer& layer) {
  const SparsityStatistics& s = layer.statistics;
  Figure figure;
  figure.title = fmt::format("{}: sorted row lengths", layer.name);
  figure.caption = fmt::format("{} to {} nonzeros, CoV {:.3f}, longest {:.2f} × the mean.", s.row_min, s.row_max,
                               s.row_cov, s.row_max_over_mean);
  figure.x = {.label = "rows up to here, %", .low = 0, .high = 100};
  figure.y = {.label = "nonzeros in the row", .low = 0};
  Series line{.kind = Series::Kind::kLine, .colour = Colour::kBlue};
  const std::vector<std::int64_t>& lengths = s.row_length_quantiles;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    line.x.push_back(100 * static_cast<double>(i) / static_cast<double>(std::max<std::size_t>(1, lengths.size() - 1)));
    line.y.push_back(static_cast<double>(lengths[i]));
  }
  figure.series.push_back(std::move(line));
  figure.rules.push_back({.text = fmt::format("mean {:.1f}", s.row_mean), .y = s.row_mean});
  return figure;
}

Figure density_figure(const AnalyzedLayer& layer) {
  const DensityMap& map = layer.map;
  const bool elements = map.rows == layer.statistics.rows && map.cols == layer.statistics.cols;
  const double most = *std::ranges::max_element(map.density);
  Figure figure;
  figure.title = fmt::format("{}: {}", layer.name, elements ? "nonzeros" : "density");
  figure.caption = elements ? "Bright: a nonzero."
                            : fmt::format("Share of nonzeros in each of {} × {} cells: 0 (dark) to {} (bright).",
                                          map.rows, map.cols, percent(most));
  figure.x = {.label = "column (input feature)", .low = 0, .high = static_cast<double>(layer.statistics.cols)};
  figure.y = {.label = "row (output feature)", .low = 0, .high = static_cast<double>(layer.statistics.rows)};
  Series heat{.kind = Series::Kind::kHeat, .columns = map.cols};
  for (const double density : map.density) heat.y.push_back(most > 0 ? density / most : 0);
  figure.series.push_back(std::move(heat));
  return figure;
}

// A row of small figures for each of the first weights.
std::vector<Figure> detailed_figures(const LayerAnalysis& analysis) {
  std::vector<Figure> figures;
  for (std::size_t i = 0; i < std::min(kDetailedLayers, analysis.layers.size()); ++i) {
    const AnalyzedLayer& layer = analysis.layers[i];
    if (layer.statistics.row_length_histogram.empty()) continue;
    figures.push_back(row_histogram(layer));
    if (!layer.statistics.row_length_quantiles.empty()) figures.push_back(sorted_rows(layer));
    if (!layer.map.density.empty()) figures.push_back(density_figure(layer));
  }
  return figures;
}

// The weights' own sizes in their smallest sparse format, over the curves of random zeros.
Block bytes_block(const LayerAnalysis& analysis, DataType type) {
  Block block;
  Figure& figure = block.figures.emplace_back(format_curves(type));
  figure.title = fmt::format("Bytes per format against sparsity, {}", short_name(type));
  figure.caption =
      "Lines: zeros at random. Points: these weights in the smallest of the formats. Circles on the line at 1: where a "
      "format breaks even with dense.";
  Series points{.kind = Series::Kind::kPoints, .name = "these weights", .colour = Colour::kVermillion};
  HtmlTable table;
  table.title = "Break-even with dense, zeros at random";
  table.columns = {{"format"}, {"zeros", true}};
  for (const BreakEven& point : format_break_evens(type)) table.rows.push_back({point.format, percent(point.sparsity)});
  const auto value_bytes = static_cast<std::int64_t>(size_of(type));
  for (const AnalyzedLayer& layer : analysis.layers) {
    const SparsityStatistics& s = layer.statistics;
    if (s.data_type != type || s.rows * s.cols == 0) continue;
    const SparsityStatistics::FormatBytes best = smallest_format(s);
    points.x.push_back(s.sparsity);
    points.y.push_back(static_cast<double>(best.bytes) / static_cast<double>(s.rows * s.cols * value_bytes));
    points.labels.push_back(fmt::format("{}: {} {}", layer.name, best.format, readable_bytes(best.bytes)));
  }
  figure.series.push_back(std::move(points));
  block.table = std::move(table);
  return block;
}

}  // namespace

Section analysis_section(const LayerAnalysis& analysis) {
  Section section;
  section.title = fmt::format("Sparsity of {}", analysis.source);
  section.text = fmt::format("{} weight{}, {} tensors left out.", analysis.layers.size(),
                             analysis.layers.size() == 1 ? "" : "s", analysis.skipped.size());
  if (!analysis.layers.empty()) {
    section.blocks.push_back({.figures = {sparsity_per_layer(analysis)}, .table = layer_table(analysis)});
    std::map<DataType, int> types;
    for (const AnalyzedLayer& layer : analysis.layers) ++types[layer.statistics.data_type];
    for (const auto& [type, count] : types) section.blocks.push_back(bytes_block(analysis, type));
    Block details{.figures = detailed_figures(analysis)};
    if (analysis.layers.size() > kDetailedLayers) {
      details.text = fmt::format("Row lengths of the first {} of {} weights; --include picks others.", kDetailedLayers,
                                 analysis.layers.size());
    }
    if (!details.figures.empty()) section.blocks.push_back(std::move(details));
  }
  if (!analysis.skipped.empty()) {
    HtmlTable table;
    table.title = "Left out";
    table.columns = {{"tensor"}, {"type"}, {"reason"}};
    for (const LayerAnalysis::Skipped& tensor : analysis.skipped)
      table.rows.push_back({tensor.name, tensor.description, tensor.reason});
    section.blocks.push_back({.table = std::move(table)});
  }
  return section;
}

}  // namespace sparsmith::tools
