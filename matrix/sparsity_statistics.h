// Statistics of a weight's zeros. Formats and kernels are chosen by these figures.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "matrix/csr_matrix.h"

namespace sparsmith {

// Definitions: CoV is the population standard deviation of the lengths over their mean (0 where the mean is
// 0). A b x b block grid covers the matrix with ceil(M / b) * ceil(K / b) blocks.
struct SparsityStatistics {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  DataType data_type = DataType::kFloat32;  // of the source
  double sparsity = 0;                      // 1 - nnz / (M K); 0 for a matrix without elements

  double row_mean = 0;
  double row_cov = 0;
  double row_max_over_mean = 0;
  std::int64_t row_min = 0;
  std::int64_t row_max = 0;
  double empty_row_fraction = 0;
  double column_cov = 0;
  double empty_column_fraction = 0;

  static constexpr std::array<int, 5> kBlockSizes = {4, 8, 16, 32, 64};
  std::array<double, 5> block_fill{};     // nnz / (touched blocks * b * b); 0 without nonzeros
  std::array<double, 5> block_touched{};  // share of blocks that hold a nonzero
  std::array<double, 5> block_full{};     // share of blocks that are at least half full
  std::array<double, 5> block_rest{};     // share of the nonzeros that are in other blocks
  double two_four_legal = 0;              // share of aligned 1 x 4 groups, ceil(K / 4) a row, with at most two nonzeros

  static constexpr std::array<int, 3> kGroupSizes = {4, 8, 16};
  // Of aligned groups of 1 x 4, 8 and 16 elements: how many have 0, 1, ... nonzeros.
  std::array<std::array<std::int64_t, 17>, 3> groups{};

  // Row lengths: histogram[0] counts empty rows, histogram[i] counts rows of length [2^(i-1), 2^i).
  std::vector<std::int64_t> row_length_histogram;
  // Row lengths in ascending order, at most 1,025 evenly spaced quantiles. Cost models integrate over them.
  std::vector<std::int64_t> row_length_quantiles;

  // The size of the weight in some formats, with `value_bytes` per value.
  struct FormatBytes {
    std::string format;  // "dense", "csr_u32", "csr_u16" (K <= 65,536), "bitmap", "bsr4" ... "bsr64", "two_four" (when
                         // every group is legal)
    std::int64_t bytes = 0;
  };
  std::vector<FormatBytes> format_bytes(std::int64_t value_bytes) const;
};

SparsityStatistics compute_statistics(const CsrMatrix& matrix);

// Blocks that hold something, of each size in SparsityStatistics::kBlockSizes.
struct BlockTotals {
  using OfSizes = std::array<std::int64_t, SparsityStatistics::kBlockSizes.size()>;
  OfSizes touched{};
  OfSizes full{};  // at least half full
  OfSizes full_nonzeros{};

  void add(std::size_t size, std::int64_t nonzeros) {
    const std::int64_t side = SparsityStatistics::kBlockSizes[size];
    ++touched[size];
    if (2 * nonzeros < side * side) return;
    ++full[size];
    full_nonzeros[size] += nonzeros;
  }
  void add(const BlockTotals& other) {
    for (std::size_t i = 0; i < touched.size(); ++i) {
      touched[i] += other.touched[i];
      full[i] += other.full[i];
      full_nonzeros[i] += other.full_nonzeros[i];
    }
  }
};

// The counts of one pass over a matrix. statistics_of() computes the statistics from them.
struct PatternCounts {
  // Of a matrix, with nothing counted yet.
  explicit PatternCounts(const auto& matrix)
      : rows(matrix.rows),
        cols(matrix.cols),
        data_type(matrix.data_type),
        row_lengths(matrix.rows),
        column_lengths(matrix.cols) {}

  std::int64_t rows;
  std::int64_t cols;
  DataType data_type;
  std::vector<std::int64_t> row_lengths;     // [rows]
  std::vector<std::int64_t> column_lengths;  // [cols]
  BlockTotals blocks;
  decltype(SparsityStatistics::groups) groups{};  // without those that hold nothing
};
SparsityStatistics statistics_of(PatternCounts counts);

// The statistics as one JSON object: name, M, K, nnz, sparsity, row_mean, row_cov, row_max_over_mean, empty_row_frac,
// col_cov, empty_col_frac, row_min, row_max, b4_fill ... b64_fill, b4_nzb ... b64_nzb (block_touched), n24_ok_frac,
// dtype, row_length_histogram, bytes (an object: format -> bytes with values of the source's type), structure (the text
// of structure_of(), or "") and structures (structures_of()).
std::string to_json(const SparsityStatistics& statistics, const std::string& name);

}  // namespace sparsmith
