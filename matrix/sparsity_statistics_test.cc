#include "matrix/sparsity_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "matrix/synthesis.h"

namespace sparsmith {
namespace {

// 5 x 6:
//   1 1 1 . | . 1
//   . . . . | . .
//   1 . . . | . .
//   . . . . | . .
//   . . . . | 1 1
CsrMatrix small_matrix() {
  CsrMatrix matrix;
  matrix.rows = 5;
  matrix.cols = 6;
  matrix.row_offsets = {0, 4, 4, 5, 5, 7};
  matrix.column_indices = {0, 1, 2, 5, 0, 4, 5};
  matrix.values.assign(7, 1.0F);
  return matrix;
}

TEST(SparsityStatisticsTest, CountsByHand) {
  const SparsityStatistics s = compute_statistics(small_matrix());
  EXPECT_EQ(s.nnz, 7);
  EXPECT_DOUBLE_EQ(s.sparsity, 1 - 7.0 / 30);
  EXPECT_DOUBLE_EQ(s.row_mean, 1.4);
  EXPECT_DOUBLE_EQ(s.row_cov, std::sqrt((2.6 * 2.6 + 1.4 * 1.4 + 0.4 * 0.4 + 1.4 * 1.4 + 0.6 * 0.6) / 5) / 1.4);
  EXPECT_DOUBLE_EQ(s.row_max_over_mean, 4 / 1.4);
  EXPECT_EQ(s.row_min, 0);
  EXPECT_EQ(s.row_max, 4);
  EXPECT_DOUBLE_EQ(s.empty_row_fraction, 0.4);
  EXPECT_DOUBLE_EQ(s.empty_column_fraction, 1.0 / 6);
  EXPECT_DOUBLE_EQ(s.block_touched[0], 3.0 / 4);  // of 2 x 2 blocks, the lower left one is empty
  EXPECT_DOUBLE_EQ(s.block_fill[0], 7.0 / (3 * 16));
  EXPECT_DOUBLE_EQ(s.block_touched[1], 1.0);
  EXPECT_DOUBLE_EQ(s.two_four_legal, 0.9);  // one of ten groups holds three
  EXPECT_EQ(s.row_length_histogram, (std::vector<std::int64_t>{2, 1, 1, 1}));
  EXPECT_EQ(s.row_length_quantiles, (std::vector<std::int64_t>{0, 0, 1, 2, 4}));
}

TEST(SparsityStatisticsTest, DegenerateMatrices) {
  for (const auto& [rows, cols] : {std::pair{0, 0}, {0, 5}, {5, 0}, {3, 4}}) {
    CsrMatrix matrix;
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.row_offsets.assign(rows + 1, 0);
    const SparsityStatistics s = compute_statistics(matrix);
    EXPECT_EQ(s.sparsity, rows * cols > 0 ? 1 : 0);
    EXPECT_EQ(s.row_cov, 0);
    EXPECT_EQ(s.row_max_over_mean, 0);
    EXPECT_EQ(s.block_fill[0], 0);
    EXPECT_EQ(s.empty_row_fraction, rows > 0 ? 1 : 0);
  }
}

// Time goes by the nonzeros, not by the blocks, of which there are 10^11 here.
TEST(SparsityStatisticsTest, BlocksThatHoldNothingTakeNoTime) {
  CsrMatrix matrix;
  matrix.rows = matrix.cols = std::int64_t{1} << 20;
  matrix.row_offsets.assign(matrix.rows + 1, 3);
  matrix.row_offsets[0] = 0;
  matrix.column_indices = {0, 1, 1 << 19};
  matrix.values.assign(3, 1.0F);
  const SparsityStatistics s = compute_statistics(matrix);
  EXPECT_DOUBLE_EQ(s.block_fill[0], 3.0 / (2 * 16));
  EXPECT_EQ(s.groups[0][2], 1);
}

TEST(SparsityStatisticsTest, QuantilesSpanTheRowLengths) {
  const SparsityStatistics s =
      compute_statistics(*synthesize({5000, 300, 0.9, {SynthesisPattern::Kind::kLognormal, 1.0}}));
  EXPECT_EQ(s.row_length_quantiles.size(), 1025);
  EXPECT_EQ(s.row_length_quantiles.front(), s.row_min);
  EXPECT_EQ(s.row_length_quantiles.back(), s.row_max);
  EXPECT_TRUE(std::is_sorted(s.row_length_quantiles.begin(), s.row_length_quantiles.end()));
}

TEST(SparsityStatisticsTest, BytesOfFormats) {
  const auto bytes = [](const SparsityStatistics& s, const std::string& format) {
    for (const auto& item : s.format_bytes(2))
      if (item.format == format) return item.bytes;
    return std::int64_t{-1};
  };
  const SparsityStatistics s = compute_statistics(small_matrix());
  EXPECT_EQ(bytes(s, "dense"), 60);
  EXPECT_EQ(bytes(s, "csr_u32"), 24 + 7 * 6);
  EXPECT_EQ(bytes(s, "csr_u16"), 24 + 7 * 4);
  EXPECT_EQ(bytes(s, "bitmap"), 24 + 5 + 7 * 2);
  EXPECT_EQ(bytes(s, "bsr4"), 12 + 3 * (4 + 32));
  EXPECT_EQ(bytes(s, "two_four"), -1);  // a group holds three
  const SparsityStatistics legal =
      compute_statistics(*synthesize({64, 64, 0.5, {SynthesisPattern::Kind::kTwoFour, 0}}));
  EXPECT_EQ(bytes(legal, "two_four"), 64 * 32 * 2 + 64 * 32 / 4);
  CsrMatrix wide;
  wide.rows = 1;
  wide.cols = 65537;
  wide.row_offsets = {0, 0};
  EXPECT_EQ(bytes(compute_statistics(wide), "csr_u16"), -1);
}

TEST(SparsityStatisticsTest, JsonSurvivesAnyName) {
  const auto json = nlohmann::json::parse(to_json(compute_statistics(small_matrix()), "\"\xff\n"));
  EXPECT_EQ(json["name"].get<std::string>().substr(0, 1), "\"");
  EXPECT_EQ(json["M"], 5);
  EXPECT_EQ(json["bytes"]["dense"], 120);
}

}  // namespace
}  // namespace sparsmith
