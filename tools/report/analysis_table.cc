#include "tools/report/analysis_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "base/printable.h"
#include "tools/report/sparkline.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kMaxNameWidth = 48;
constexpr std::int64_t kBarWidth = 50;
constexpr std::size_t kBlock16 = 2;  // in SparsityStatistics::kBlockSizes
static_assert(SparsityStatistics::kBlockSizes[kBlock16] == 16);

// Long names keep their end, which tells layers apart.
std::string shortened(const std::string& name) {
  const std::string shown = printable(name);
  return shown.size() <= kMaxNameWidth ? shown : "..." + shown.substr(shown.size() - kMaxNameWidth + 3);
}

// A bar a power of two, from the shortest rows that there are.
std::string row_length_sparkline(const std::vector<std::int64_t>& histogram) {
  const auto first = std::ranges::find_if(histogram, [](std::int64_t rows) { return rows > 0; });
  return sparkline({first, histogram.end()}, histogram.size());
}

std::int64_t dense_bytes(const SparsityStatistics& s) {
  return s.rows * s.cols * static_cast<std::int64_t>(size_of(s.data_type));
}

}  // namespace

SparsityStatistics::FormatBytes smallest_format(const SparsityStatistics& statistics) {
  const auto formats = statistics.format_bytes(static_cast<std::int64_t>(size_of(statistics.data_type)));
  return *std::min_element(formats.begin(), formats.end(),
                           [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
}

std::string readable_bytes(std::int64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string analysis_table(const ModelFile& file, const std::vector<AnalyzedWeight>& weights) {
  std::size_t width = 6;
  for (const AnalyzedWeight& weight : weights)
    width = std::max(width, shortened(file.tensors()[weight.index].name).size());
  std::string text = fmt::format("{:<{}}  {:>13}  {:<5}  {:>8}  {:>7}  {:>8}  {:>6}  {:>8}  {:>6}  {:<20}  {}\n",
                                 "weight", width, "shape", "dtype", "sparsity", "row CoV", "max/mean", "empty",
                                 "b16 fill", "2:4", "smallest format", "row lengths");
  const auto out = std::back_inserter(text);
  std::int64_t dense = 0;
  std::int64_t smallest = 0;
  for (const AnalyzedWeight& weight : weights) {
    const SparsityStatistics& s = weight.statistics;
    const SparsityStatistics::FormatBytes best = smallest_format(s);
    fmt::format_to(
        out, "{:<{}}  {:>13}  {:<5}  {:>6.2f} %  {:>7.3f}  {:>8.2f}  {:>4.1f} %  {:>8.3f}  {:>4.0f} %  {:<20}  {}\n",
        shortened(file.tensors()[weight.index].name), width, fmt::format("{} x {}", s.rows, s.cols),
        short_name(s.data_type), 100 * s.sparsity, s.row_cov, s.row_max_over_mean, 100 * s.empty_row_fraction,
        s.block_fill[kBlock16], 100 * s.two_four_legal, fmt::format("{} {}", best.format, readable_bytes(best.bytes)),
        row_length_sparkline(s.row_length_histogram));
    dense += dense_bytes(s);
    smallest += best.bytes;
  }
  fmt::format_to(out, "{} weight{}: {} dense, {} in the smallest formats\n", weights.size(),
                 weights.size() == 1 ? "" : "s", readable_bytes(dense), readable_bytes(smallest));
  return text;
}

std::string histogram_bin_label(std::size_t bin) {
  if (bin <= 1) return fmt::format("{}", bin);
  return fmt::format("{}-{}", std::int64_t{1} << (bin - 1), (std::int64_t{1} << bin) - 1);
}

std::string row_length_histogram(const std::string& name, const SparsityStatistics& statistics) {
  const std::vector<std::int64_t>& histogram = statistics.row_length_histogram;
  std::string text = fmt::format("row lengths of {}: {} to {}, mean {:.1f}\n", printable(name), statistics.row_min,
                                 statistics.row_max, statistics.row_mean);
  const std::int64_t most =
      histogram.empty() ? 1 : std::max<std::int64_t>(1, *std::max_element(histogram.begin(), histogram.end()));
  const auto first = std::find_if(histogram.begin(), histogram.end(), [](std::int64_t rows) { return rows > 0; });
  for (auto bin = static_cast<std::size_t>(first - histogram.begin()); bin < histogram.size(); ++bin) {
    const std::int64_t bar = (histogram[bin] * kBarWidth + most - 1) / most;
    fmt::format_to(std::back_inserter(text), "{:>13}  {:>8}  {:#<{}}\n", histogram_bin_label(bin), histogram[bin], "",
                   bar);
  }
  return text;
}

}  // namespace sparsmith::tools
