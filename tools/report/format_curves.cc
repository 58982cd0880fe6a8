#include "tools/report/format_curves.h"

#include <algorithm>
#include <cmath>

namespace sparsmith::tools {
namespace {

constexpr std::int64_t kSide = 4096;
constexpr int kSteps = 160;
constexpr double kLeastDensity = 0.0005;

// From all elements down.
double density_at(std::size_t step) { return std::pow(kLeastDensity, static_cast<double>(step) / kSteps); }

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

// Bytes over dense of each format, a point for each step of density.
std::vector<Series> curves_of(DataType type) {
  const auto value_bytes = static_cast<std::int64_t>(size_of(type));
  std::vector<Series> curves = {{.name = "csr_u32", .colour = Colour::kBlue},
                                {.name = "csr_u16", .colour = Colour::kSkyBlue},
                                {.name = "bitmap", .colour = Colour::kGreen},
                                {.name = "bsr4", .colour = Colour::kPurple},
                                {.name = "bsr16", .colour = Colour::kOrange}};
  for (std::size_t step = 0; step <= kSteps; ++step) {
    const double density = density_at(step);
    for (const auto& [format, bytes] : uniform_statistics(density, type).format_bytes(value_bytes)) {
      const auto curve = std::ranges::find(curves, format, &Series::name);
      if (curve == curves.end()) continue;
      curve->dashed = true;
      curve->add(1 - density, static_cast<double>(bytes) / static_cast<double>(kSide * kSide * value_bytes));
    }
  }
  std::erase_if(curves, [](const Series& curve) { return curve.x.empty(); });
  return curves;
}

std::vector<BreakEven> break_evens_of(const std::vector<Series>& curves) {
  std::vector<BreakEven> result;
  for (const Series& curve : curves) {
    const std::vector<double>& ratios = curve.y;
    for (std::size_t i = 1; i < ratios.size(); ++i) {
      if (ratios[i - 1] <= 1 || ratios[i] > 1) continue;
      const double part = (ratios[i - 1] - 1) / (ratios[i - 1] - ratios[i]);
      result.push_back({curve.name, 1 - (density_at(i - 1) + part * (density_at(i) - density_at(i - 1)))});
      break;
    }
  }
  std::ranges::sort(result, {}, &BreakEven::sparsity);
  return result;
}

}  // namespace

std::vector<BreakEven> format_break_evens(DataType type) { return break_evens_of(curves_of(type)); }

Figure format_curves(DataType type) {
  Figure figure{.title = "",
                .x = {.label = "zeros", .scale = Scale::kSparsity},
                .y = {.label = "bytes over dense", .scale = Scale::kLog},
                .series = curves_of(type),
                .rules = {{.text = "dense", .y = 1}}};
  for (const BreakEven& point : break_evens_of(figure.series))
    figure.notes.push_back({point.sparsity, 1, point.format});
  return figure;
}

}  // namespace sparsmith::tools
