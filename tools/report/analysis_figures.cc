#include "tools/report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/report/analysis_table.h"
#include "tools/report/format_curves.h"
#include "tools/report/speedups.h"

namespace sparsmith::tools {
namespace {

Table layer_table(const LayerAnalysis& analysis) {
  Table table{.columns = {"weight", ">shape", "dtype", ">zeros", ">row CoV", ">max/mean", ">empty rows", ">column CoV",
                          "structure", "smallest format"}};
  for (const AnalyzedLayer& layer : analysis.layers) {
    const SparsityStatistics& s = layer.statistics;
    const SparsityStatistics::FormatBytes best = smallest_format(s);
    table.add(layer.name, shape_text(s.rows, s.cols), short_name(s.data_type), percent(s.sparsity, 2),
              fmt::format("{:.3f}", s.row_cov), fmt::format("{:.2f}", s.row_max_over_mean),
              percent(s.empty_row_fraction, 2), fmt::format("{:.3f}", s.column_cov), layer.structure,
              fmt::format("{} {}", best.format, human_bytes(best.bytes)));
  }
  return table;
}

Figure row_histogram(const AnalyzedLayer& layer) {
  Figure figure{.title = fmt::format("{}: row lengths, CoV {:.3f}", layer.name, layer.statistics.row_cov),
                .x = {.label = "nonzeros in a row", .scale = Scale::kCategories},
                .y = {.label = "rows", .low = 0}};
  Series bars{.kind = Series::Kind::kBars};
  const std::vector<std::int64_t>& histogram = layer.statistics.row_length_histogram;
  for (std::size_t bin = first_filled_bin(histogram); bin < histogram.size(); ++bin) {
    bars.add(bars.x.size(), static_cast<double>(histogram[bin]),
             fmt::format("{} nonzeros: {} rows", histogram_bin_label(bin), histogram[bin]));
    figure.x.categories.push_back(histogram_bin_label(bin));
  }
  figure.add(std::move(bars));
  return figure;
}

Figure sorted_rows(const AnalyzedLayer& layer) {
  const SparsityStatistics& s = layer.statistics;
  const std::vector<std::int64_t>& lengths = s.row_length_quantiles;
  Series line;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    line.add(100 * static_cast<double>(i) / static_cast<double>(std::max<std::size_t>(1, lengths.size() - 1)),
             static_cast<double>(lengths[i]));
  }
  return {.title = fmt::format("{}: sorted row lengths", layer.name),
          .caption = fmt::format("{} to {} nonzeros, CoV {:.3f}, longest {:.2f} × the mean.", s.row_min, s.row_max,
                                 s.row_cov, s.row_max_over_mean),
          .x = {.label = "rows up to here, %", .low = 0, .high = 100},
          .y = {.label = "nonzeros in the row", .low = 0},
          .series = {std::move(line)},
          .rules = {{.text = fmt::format("mean {:.1f}", s.row_mean), .y = s.row_mean}}};
}

Figure density_figure(const AnalyzedLayer& layer) {
  const DensityMap& map = layer.map;
  const bool elements = map.rows == layer.statistics.rows && map.cols == layer.statistics.cols;
  const double most = *std::ranges::max_element(map.density);
  Series heat{.kind = Series::Kind::kHeat, .columns = map.cols};
  for (const double density : map.density) heat.y.push_back(most > 0 ? density / most : 0);
  return {.title = fmt::format("{}: {}", layer.name, elements ? "nonzeros" : "density"),
          .caption = elements ? "Bright: a nonzero."
                              : fmt::format("Share of nonzeros in each of {} cells: 0 (dark) to {} (bright).",
                                            shape_text(map.rows, map.cols), percent(most, 2)),
          .x = {.label = "column (input feature)", .low = 0, .high = static_cast<double>(layer.statistics.cols)},
          .y = {.label = "row (output feature)", .low = 0, .high = static_cast<double>(layer.statistics.rows)},
          .series = {std::move(heat)}};
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
  block.table = {.title = "Break-even with dense, zeros at random", .columns = {"format", ">zeros"}};
  for (const BreakEven& point : format_break_evens(type)) block.table->add(point.format, percent(point.sparsity, 2));
  const auto value_bytes = static_cast<std::int64_t>(size_of(type));
  for (const AnalyzedLayer& layer : analysis.layers) {
    const SparsityStatistics& s = layer.statistics;
    if (s.data_type != type || s.rows * s.cols == 0) continue;
    const SparsityStatistics::FormatBytes best = smallest_format(s);
    points.add(s.sparsity, static_cast<double>(best.bytes) / static_cast<double>(s.rows * s.cols * value_bytes),
               fmt::format("{}: {} {}", layer.name, best.format, human_bytes(best.bytes)));
  }
  figure.add(std::move(points));
  return block;
}

Section analysis_card(const LayerAnalysis& analysis) {
  double dense = 0;
  double smallest = 0;
  double elements = 0;
  double zeros = 0;
  for (const AnalyzedLayer& layer : analysis.layers) {
    const SparsityStatistics& s = layer.statistics;
    const double size = static_cast<double>(s.rows) * static_cast<double>(s.cols);
    elements += size;
    zeros += size * s.sparsity;
    dense += size * static_cast<double>(size_of(s.data_type));
    smallest += static_cast<double>(smallest_format(s).bytes);
  }
  Section section{.title = "Analysis of " + file_name(analysis.source), .text = source_text(analysis.source)};
  section.card = Card{.facts = {{"weights", std::to_string(analysis.layers.size()),
                                 fmt::format("{} tensors left out", analysis.skipped.size())}}};
  if (elements > 0) {
    section.card->facts.push_back({"zeros", percent(zeros / elements), "of all elements"});
    section.card->facts.push_back({"smallest formats", fmt::format("{} → {}", bytes_text(dense), bytes_text(smallest)),
                                   fmt::format("{:.2f}x the bytes of dense", smallest / dense)});
  }
  return section;
}

}  // namespace

std::vector<Section> analysis_sections(const LayerAnalysis& analysis) {
  std::vector<Section> sections = {analysis_card(analysis)};
  const auto add = [&](const char* title, std::vector<Block> blocks) {
    Section section{.title = title, .below = true};
    for (Block& block : blocks) section.add(std::move(block));
    if (!section.blocks.empty()) sections.push_back(std::move(section));
  };
  if (!analysis.layers.empty()) {
    sections.push_back(zeros_section(analysis));
    add("Weights", {{.table = layer_table(analysis)}});
    std::map<DataType, int> types;
    for (const AnalyzedLayer& layer : analysis.layers) ++types[layer.statistics.data_type];
    std::vector<Block> bytes;
    for (const auto& [type, count] : types) bytes.push_back(bytes_block(analysis, type));
    add("Bytes", std::move(bytes));
    Block details{.figures = detailed_figures(analysis)};
    if (analysis.layers.size() > kDetailedLayers) {
      details.text = fmt::format("Row lengths of the first {} of {} weights; --include picks others.", kDetailedLayers,
                                 analysis.layers.size());
    }
    add("Rows", {std::move(details)});
  }
  Table skipped{.columns = {"tensor", "type", "reason"}};
  for (const auto& [name, description, reason] : analysis.skipped) skipped.add(name, description, reason);
  add("Left out", {{.table = std::move(skipped)}});
  return sections;
}

}  // namespace sparsmith::tools
