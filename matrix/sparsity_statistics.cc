#include "matrix/sparsity_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "base/ceil_div.h"
#include "matrix/weight_structure.h"

namespace sparsmith {
namespace {

constexpr std::size_t kQuantiles = 1025;

struct Dispersion {
  double mean = 0;
  double cov = 0;
  double empty_fraction = 0;
};

Dispersion dispersion_of(const std::vector<std::int64_t>& lengths) {
  if (lengths.empty()) return {};
  const auto count = static_cast<double>(lengths.size());
  Dispersion result;
  result.mean = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})) / count;
  result.empty_fraction = static_cast<double>(std::count(lengths.begin(), lengths.end(), 0)) / count;
  double squares = 0;
  for (const std::int64_t length : lengths) {
    const double difference = static_cast<double>(length) - result.mean;
    squares += difference * difference;
  }
  if (result.mean > 0) result.cov = std::sqrt(squares / count) / result.mean;
  return result;
}

std::vector<std::int64_t> histogram_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> histogram;
  for (const std::int64_t length : lengths) {
    const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(length)));
    if (histogram.size() <= bin) histogram.resize(bin + 1);
    ++histogram[bin];
  }
  return histogram;
}

std::vector<std::int64_t> quantiles_of(const std::vector<std::int64_t>& sorted) {
  if (sorted.size() <= kQuantiles) return sorted;
  std::vector<std::int64_t> quantiles(kQuantiles);
  for (std::size_t i = 0; i < kQuantiles; ++i) quantiles[i] = sorted[i * (sorted.size() - 1) / (kQuantiles - 1)];
  return quantiles;
}

double ratio(std::int64_t numerator, std::int64_t denominator) {
  return denominator == 0 ? 0 : static_cast<double>(numerator) / static_cast<double>(denominator);
}

// The groups of a row by their nonzeros.
void count_groups(std::span<const std::uint32_t> columns, std::uint32_t size, std::array<std::int64_t, 17>& groups) {
  for (std::size_t begin = 0; begin < columns.size();) {
    std::size_t end = begin + 1;
    while (end < columns.size() && columns[end] / size == columns[begin] / size) ++end;
    ++groups[end - begin];
    begin = end;
  }
}

// The nonzeros of each block in the present bands of rows, for all block sizes. Takes no time for blocks that hold
// nothing: a matrix may have far more of them than nonzeros.
class BlockCounter {
 public:
  explicit BlockCounter(std::int64_t cols) {
    for (std::size_t i = 0; i < kSizes; ++i)
      bands_[i].counts.resize(ceil_div(cols, SparsityStatistics::kBlockSizes[i]));
  }

  void add(std::uint32_t column) { bands_[0].add(column / SparsityStatistics::kBlockSizes[0], 1); }

  // Closes the blocks that end with row `rows` - 1; all of them behind the last one.
  void close(std::int64_t rows, bool last, PatternCounts& to) {
    for (std::size_t i = 0; i < kSizes && (last || rows % SparsityStatistics::kBlockSizes[i] == 0); ++i) {
      for (const std::uint32_t block : bands_[i].touched) {
        const std::int32_t count = std::exchange(bands_[i].counts[block], 0);
        to.blocks.add(i, count);
        if (i + 1 < kSizes) bands_[i + 1].add(block / 2, count);
      }
      bands_[i].touched.clear();
    }
  }

 private:
  static constexpr std::size_t kSizes = SparsityStatistics::kBlockSizes.size();
  struct Band {
    std::vector<std::int32_t> counts;    // of each block
    std::vector<std::uint32_t> touched;  // blocks that hold something

    void add(std::uint32_t block, std::int32_t nonzeros) {
      if (counts[block] == 0) touched.push_back(block);
      counts[block] += nonzeros;
    }
  };
  std::array<Band, kSizes> bands_;
};

}  // namespace

SparsityStatistics statistics_of(PatternCounts counts) {
  SparsityStatistics result;
  result.rows = counts.rows;
  result.cols = counts.cols;
  result.data_type = counts.data_type;
  result.nnz = std::accumulate(counts.row_lengths.begin(), counts.row_lengths.end(), std::int64_t{0});
  const double elements = static_cast<double>(counts.rows) * static_cast<double>(counts.cols);
  if (elements > 0) result.sparsity = 1.0 - static_cast<double>(result.nnz) / elements;

  const Dispersion row = dispersion_of(counts.row_lengths);
  const Dispersion column = dispersion_of(counts.column_lengths);
  result.row_mean = row.mean;
  result.row_cov = row.cov;
  result.empty_row_fraction = row.empty_fraction;
  result.column_cov = column.cov;
  result.empty_column_fraction = column.empty_fraction;

  result.row_length_histogram = histogram_of(counts.row_lengths);
  std::sort(counts.row_lengths.begin(), counts.row_lengths.end());
  if (!counts.row_lengths.empty()) {
    result.row_min = counts.row_lengths.front();
    result.row_max = counts.row_lengths.back();
  }
  if (row.mean > 0) result.row_max_over_mean = static_cast<double>(result.row_max) / row.mean;
  result.row_length_quantiles = quantiles_of(counts.row_lengths);

  for (std::size_t i = 0; i < SparsityStatistics::kBlockSizes.size(); ++i) {
    const std::int64_t size = SparsityStatistics::kBlockSizes[i];
    const std::int64_t touched = counts.blocks.touched[i];
    result.block_fill[i] = ratio(result.nnz, touched * size * size);
    const std::int64_t blocks = ceil_div(counts.rows, size) * ceil_div(counts.cols, size);
    result.block_touched[i] = ratio(touched, blocks);
    result.block_full[i] = ratio(counts.blocks.full[i], blocks);
    result.block_rest[i] = ratio(result.nnz - counts.blocks.full_nonzeros[i], result.nnz);
  }
  result.groups = counts.groups;
  for (std::size_t i = 0; i < result.groups.size(); ++i) {
    std::array<std::int64_t, 17>& sizes = result.groups[i];
    sizes[0] = counts.rows * ceil_div(counts.cols, std::int64_t{SparsityStatistics::kGroupSizes[i]}) -
               std::accumulate(sizes.begin() + 1, sizes.end(), std::int64_t{0});
  }
  const auto& fours = result.groups[0];
  result.two_four_legal =
      ratio(fours[0] + fours[1] + fours[2], std::accumulate(fours.begin(), fours.end(), std::int64_t{0}));
  return result;
}

SparsityStatistics compute_statistics(const CsrMatrix& matrix) {
  PatternCounts counts(matrix);
  BlockCounter blocks(matrix.cols);
  const std::span<const std::uint32_t> columns(matrix.column_indices);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    counts.row_lengths[row] = matrix.row_length(row);
    const auto row_columns = columns.subspan(matrix.row_offsets[row], matrix.row_length(row));
    for (const std::uint32_t column : row_columns) {
      ++counts.column_lengths[column];
      blocks.add(column);
    }
    for (std::size_t i = 0; i < counts.groups.size(); ++i)
      count_groups(row_columns, SparsityStatistics::kGroupSizes[i], counts.groups[i]);
    blocks.close(row + 1, row + 1 == matrix.rows, counts);
  }
  return statistics_of(std::move(counts));
}

std::vector<SparsityStatistics::FormatBytes> SparsityStatistics::format_bytes(std::int64_t value_bytes) const {
  const std::int64_t elements = rows * cols;
  const std::int64_t offsets = (rows + 1) * 4;
  std::vector<FormatBytes> result;
  result.push_back({"dense", elements * value_bytes});
  result.push_back({"csr_u32", offsets + nnz * (4 + value_bytes)});
  if (cols <= 65536) result.push_back({"csr_u16", offsets + nnz * (2 + value_bytes)});
  result.push_back({"bitmap", offsets + rows * ceil_div(cols, 8) + nnz * value_bytes});
  for (std::size_t i = 0; i < kBlockSizes.size(); ++i) {
    const std::int64_t size = kBlockSizes[i];
    const std::int64_t block_rows = ceil_div(rows, size);
    const std::int64_t blocks = std::llround(block_touched[i] * static_cast<double>(block_rows * ceil_div(cols, size)));
    result.push_back({fmt::format("bsr{}", size), (block_rows + 1) * 4 + blocks * (4 + size * size * value_bytes)});
  }
  if (two_four_legal == 1.0) {
    // Two values of each group of four, and two bits of metadata for each of them.
    const std::int64_t kept = rows * ceil_div(cols, 4) * 2;
    result.push_back({"two_four", kept * value_bytes + ceil_div(kept, 4)});
  }
  return result;
}

std::string to_json(const SparsityStatistics& statistics, const std::string& name) {
  nlohmann::ordered_json json = {{"name", name},
                                 {"M", statistics.rows},
                                 {"K", statistics.cols},
                                 {"nnz", statistics.nnz},
                                 {"sparsity", statistics.sparsity},
                                 {"row_mean", statistics.row_mean},
                                 {"row_cov", statistics.row_cov},
                                 {"row_max_over_mean", statistics.row_max_over_mean},
                                 {"empty_row_frac", statistics.empty_row_fraction},
                                 {"col_cov", statistics.column_cov},
                                 {"empty_col_frac", statistics.empty_column_fraction},
                                 {"row_min", statistics.row_min},
                                 {"row_max", statistics.row_max}};
  for (std::size_t i = 0; i < SparsityStatistics::kBlockSizes.size(); ++i) {
    json[fmt::format("b{}_fill", SparsityStatistics::kBlockSizes[i])] = statistics.block_fill[i];
  }
  for (std::size_t i = 0; i < SparsityStatistics::kBlockSizes.size(); ++i) {
    json[fmt::format("b{}_nzb", SparsityStatistics::kBlockSizes[i])] = statistics.block_touched[i];
  }
  json["n24_ok_frac"] = statistics.two_four_legal;
  json["dtype"] = short_name(statistics.data_type);
  json["row_length_histogram"] = statistics.row_length_histogram;
  for (const auto& [format, bytes] :
       statistics.format_bytes(static_cast<std::int64_t>(size_of(statistics.data_type)))) {
    json["bytes"][format] = bytes;
  }
  const auto structure = structure_of(statistics);
  json["structure"] = structure ? structure->text() : "";
  json["structures"] = nlohmann::ordered_json::array();
  for (const WeightStructure& each : structures_of(statistics))
    json["structures"].push_back(
        {{"name", each.name}, {"fill", each.fill}, {"rest", each.rest}, {"bytes", each.bytes}});
  // A name is whatever a file says: bytes that are no UTF-8 are replaced, never thrown at.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace sparsmith
