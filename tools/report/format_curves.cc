#include "tools/report/format_curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace sparsmith::tools {
namespace {

constexpr std::int64_t kSide = 4096;
constexpr int kSteps = 160;
constexpr double kLeastDensity = 0.0005;
constexpr std::array kDrawn = {"csr_u32", "csr_u16", "bitmap", "bsr4", "bsr16"};

// What uniform random zeros look like on average: a block of b x b is touched unless all of it is zero.
SparsityStatistics uniform_statistics(double density, DataType type) {
  SparsityStatistics statistics;
  statistics.rows = kSide;
  statistics.cols = kSide;
  statistics.nnz = std::llround(density * static_cast<double>(kSide * kSide));
  statistics.data_type = type;
  statistics.sparsity = 1 - density;
  for (std::size_t i = 0; i < SparsityStatistics::kBlockSizes.size(); ++i) {
    const int elements = SparsityStatistics::kBlockSizes[i] * SparsityStatistics::kBlockSizes[i];
    statistics.block_touched[i] = 1 - std::pow(1 - density, elements);
  }
  return statistics;
}

// [format] -> bytes over dense, for each step of density.
std::map<std::string, std::vector<double>> curves_of(DataType type, const std::vector<double>& densities) {
  const auto value_bytes = static_cast<std::int64_t>(size_of(type));
  const auto dense = static_cast<double>(kSide * kSide * value_bytes);
  std::map<std::string, std::vector<double>> curves;
  for (const double density : densities) {
    for (const auto& [format, bytes] : uniform_statistics(density, type).format_bytes(value_bytes))
      curves[format].push_back(static_cast<double>(bytes) / dense);
  }
  return curves;
}

std::vector<double> densities_down_from_all() {
  std::vector<double> densities;
  for (int i = 0; i <= kSteps; ++i) densities.push_back(std::pow(kLeastDensity, static_cast<double>(i) / kSteps));
  return densities;
}

}  // namespace

std::vector<BreakEven> format_break_evens(DataType type) {
  const std::vector<double> densities = densities_down_from_all();
  const auto curves = curves_of(type, densities);
  std::vector<BreakEven> result;
  for (const char* format : kDrawn) {
    const auto curve = curves.find(format);
    if (curve == curves.end()) continue;
    const std::vector<double>& ratios = curve->second;
    for (std::size_t i = 1; i < ratios.size(); ++i) {
      if (ratios[i - 1] <= 1 || ratios[i] > 1) continue;
      const double part = (ratios[i - 1] - 1) / (ratios[i - 1] - ratios[i]);
      result.push_back({format, 1 - (densities[i - 1] + part * (densities[i] - densities[i - 1]))});
      break;
    }
  }
  std::ranges::sort(result, {}, &BreakEven::sparsity);
  return result;
}

Figure format_curves(DataType type) {
  const std::vector<double> densities = densities_down_from_all();
  const auto curves = curves_of(type, densities);
  Figure figure;
  figure.x = {.label = "zeros", .scale = Scale::kSparsity};
  figure.y = {.label = "bytes over dense", .scale = Scale::kLog};
  static constexpr std::array kColour = {Colour::kBlue, Colour::kSkyBlue, Colour::kGreen, Colour::kPurple,
                                         Colour::kOrange};
  for (std::size_t i = 0; i < kDrawn.size(); ++i) {
    const auto curve = curves.find(kDrawn[i]);
    if (curve == curves.end()) continue;
    Series& series = figure.series.emplace_back();
    series.kind = Series::Kind::kLine;
    series.name = kDrawn[i];
    series.colour = kColour[i];
    series.dashed = true;
    series.y = curve->second;
    for (const double density : densities) series.x.push_back(1 - density);
  }
  figure.rules.push_back({.text = "dense", .y = 1});
  for (const BreakEven& point : format_break_evens(type)) figure.notes.push_back({point.sparsity, 1, point.format});
  return figure;
}

}  // namespace sparsmith::tools
