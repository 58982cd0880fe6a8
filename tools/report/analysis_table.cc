#include "tools/report/analysis_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "base/printable.h"
#include "matrix/weight_structure.h"
#include "tools/report/table.h"

namespace sparsmith::tools {
namespace {

constexpr std::size_t kMaxNameWidth = 48;
constexpr std::int64_t kBarWidth = 50;

// Long names keep their end, which tells layers apart.
std::string shortened(const std::string& name) {
  const std::string shown = printable(name);
  return shown.size() <= kMaxNameWidth ? shown : "..." + shown.substr(shown.size() - kMaxNameWidth + 3);
}

std::int64_t dense_bytes(const SparsityStatistics& s) {
  return s.rows * s.cols * static_cast<std::int64_t>(size_of(s.data_type));
}

}  // namespace

SparsityStatistics::FormatBytes smallest_format(const SparsityStatistics& statistics) {
  const auto formats = statistics.format_bytes(static_cast<std::int64_t>(size_of(statistics.data_type)));
  return *std::ranges::min_element(formats, {}, &SparsityStatistics::FormatBytes::bytes);
}

std::string structure_text(const SparsityStatistics& statistics) {
  const auto structure = structure_of(statistics);
  if (!structure) return "-";
  return structure->rest == 0 ? structure->name : fmt::format("{} + {}", structure->name, percent(structure->rest));
}

std::string structure_table(const std::string& name, const SparsityStatistics& statistics) {
  Table table{.columns = {"structure", ">fill", ">nonzeros outside", ">bytes with them"}};
  for (const WeightStructure& each : structures_of(statistics))
    table.add(each.name, fmt::format("{:.3f}", each.fill), percent(each.rest, 2), human_bytes(each.bytes));
  const auto nearest = structure_of(statistics);
  return fmt::format("{}: {}\n{}", printable(name), nearest ? nearest->text() : "no regular structure", table.plain());
}

std::string analysis_table(const ModelFile& file, const std::vector<AnalyzedWeight>& weights) {
  Table table{.columns = {"weight", ">shape", "dtype", ">sparsity", ">row CoV", ">max/mean", ">empty", "structure",
                          "smallest format", "row lengths"}};
  std::int64_t dense = 0;
  std::int64_t smallest = 0;
  for (const AnalyzedWeight& weight : weights) {
    const SparsityStatistics& s = weight.statistics;
    const SparsityStatistics::FormatBytes best = smallest_format(s);
    const std::vector<std::int64_t>& histogram = s.row_length_histogram;
    table.add(shortened(file.tensors()[weight.index].name), fmt::format("{} x {}", s.rows, s.cols),
              short_name(s.data_type), percent(s.sparsity, 2), fmt::format("{:.3f}", s.row_cov),
              fmt::format("{:.2f}", s.row_max_over_mean), percent(s.empty_row_fraction), structure_text(s),
              fmt::format("{} {}", best.format, human_bytes(best.bytes)),
              // A bar a power of two.
              sparkline({histogram.begin() + static_cast<std::ptrdiff_t>(first_filled_bin(histogram)), histogram.end()},
                        histogram.size()));
    dense += dense_bytes(s);
    smallest += best.bytes;
  }
  return fmt::format("{} weight{}: {} dense, {} in the smallest formats\n{}", weights.size(),
                     weights.size() == 1 ? "" : "s", human_bytes(dense), human_bytes(smallest),
                     weights.empty() ? "" : table.plain());
}

std::size_t first_filled_bin(const std::vector<std::int64_t>& histogram) {
  const auto filled = std::ranges::find_if(histogram, [](std::int64_t rows) { return rows > 0; });
  return static_cast<std::size_t>(filled - histogram.begin());
}

std::string histogram_bin_label(std::size_t bin) {
  if (bin <= 1) return fmt::format("{}", bin);
  return fmt::format("{}-{}", std::int64_t{1} << (bin - 1), (std::int64_t{1} << bin) - 1);
}

std::string row_length_histogram(const std::string& name, const SparsityStatistics& statistics) {
  const std::vector<std::int64_t>& histogram = statistics.row_length_histogram;
  std::string text = fmt::format("row lengths of {}: {} to {}, mean {:.1f}\n", printable(name), statistics.row_min,
                                 statistics.row_max, statistics.row_mean);
  const std::int64_t most = histogram.empty() ? 1 : std::max<std::int64_t>(1, std::ranges::max(histogram));
  for (std::size_t bin = first_filled_bin(histogram); bin < histogram.size(); ++bin) {
    const std::int64_t bar = (histogram[bin] * kBarWidth + most - 1) / most;
    fmt::format_to(std::back_inserter(text), "{:>13}  {:>8}  {:#<{}}\n", histogram_bin_label(bin), histogram[bin], "",
                   bar);
  }
  return text;
}

}  // namespace sparsmith::tools
