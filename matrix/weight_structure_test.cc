#include "matrix/weight_structure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "matrix/synthesis.h"

namespace sparsmith {
namespace {

CsrMatrix drawn(const std::string& pattern, double sparsity, std::int64_t rows = 512, std::int64_t cols = 1024) {
  SynthesisSpec spec;
  spec.rows = rows;
  spec.cols = cols;
  spec.sparsity = sparsity;
  spec.pattern = parse_synthesis_pattern(pattern).value();
  spec.seed = 11;
  return synthesize(spec).value();
}

// With `count` more nonzeros at drawn places.
CsrMatrix with_strays(const CsrMatrix& matrix, std::int64_t count) {
  std::mt19937_64 random(7);
  std::vector<std::vector<std::uint32_t>> rows(matrix.rows);
  for (std::int64_t row = 0; row < matrix.rows; ++row)
    rows[row].assign(matrix.column_indices.begin() + matrix.row_offsets[row],
                     matrix.column_indices.begin() + matrix.row_offsets[row + 1]);
  while (count > 0) {
    auto& row = rows[random() % rows.size()];
    const auto column = static_cast<std::uint32_t>(random() % matrix.cols);
    if (std::ranges::find(row, column) != row.end()) continue;
    row.push_back(column);
    --count;
  }
  CsrMatrix result;
  result.rows = matrix.rows;
  result.cols = matrix.cols;
  for (auto& row : rows) {
    std::ranges::sort(row);
    result.column_indices.insert(result.column_indices.end(), row.begin(), row.end());
    result.row_offsets.push_back(std::ssize(result.column_indices));
  }
  result.values.assign(result.column_indices.size(), 1.0F);
  return result;
}

// `kept` of each group of `columns`, the first ones behind a drawn one.
CsrMatrix kept_of(std::size_t kept, std::size_t columns) {
  std::mt19937_64 random(5);
  CsrMatrix matrix;
  matrix.rows = 128;
  matrix.cols = 512;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::size_t group = 0; group < 512; group += columns) {
      std::vector<std::uint32_t> places(columns);
      for (std::size_t i = 0; i < columns; ++i) places[i] = static_cast<std::uint32_t>(group + i);
      std::ranges::shuffle(places, random);
      std::ranges::sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(kept));
      matrix.column_indices.insert(matrix.column_indices.end(), places.begin(),
                                   places.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    matrix.row_offsets.push_back(std::ssize(matrix.column_indices));
  }
  matrix.values.assign(matrix.column_indices.size(), 1.0F);
  return matrix;
}

std::string found(const CsrMatrix& matrix) {
  const auto structure = structure_of(compute_statistics(matrix));
  return structure ? structure->name : "";
}

TEST(WeightStructureTest, FindsWhatWeightsWerePrunedTo) {
  for (const int block : {4, 8, 16, 32, 64})
    EXPECT_EQ(found(drawn("block:" + std::to_string(block), 0.8)), "b" + std::to_string(block));
  EXPECT_EQ(found(drawn("2:4", 0.5)), "2:4");
  EXPECT_EQ(found(kept_of(1, 4)), "1:4");
  EXPECT_EQ(found(kept_of(4, 8)), "4:8");
  EXPECT_EQ(found(kept_of(2, 8)), "2:8");
  EXPECT_EQ(found(kept_of(2, 16)), "2:16");
}

TEST(WeightStructureTest, ZerosAtRandomHaveNone) {
  for (const char* pattern : {"uniform", "lognormal:0.5", "power:1"})
    for (const double sparsity : {0.3, 0.5, 0.6, 0.75, 0.8, 0.9, 0.95, 0.99, 0.999})
      EXPECT_EQ(found(drawn(pattern, sparsity)), "") << pattern << " " << sparsity;
  EXPECT_EQ(found(drawn("uniform", 0)), "");
  CsrMatrix nothing;
  nothing.rows = 4;
  nothing.cols = 4;
  nothing.row_offsets.assign(5, 0);
  EXPECT_EQ(found(nothing), "");
}

TEST(WeightStructureTest, AFewNonzerosMayBeOutside) {
  const CsrMatrix blocks = drawn("block:32", 0.9);
  const auto nearly = structure_of(compute_statistics(with_strays(blocks, blocks.nnz() / 50)));
  ASSERT_TRUE(nearly);
  EXPECT_EQ(nearly->name, "b32");
  EXPECT_NEAR(nearly->rest, 0.02 / 1.02, 0.0001);
  EXPECT_EQ(nearly->text(), "blocks of 32 x 32 but for 2 % of the nonzeros");
  EXPECT_EQ(found(with_strays(blocks, blocks.nnz() / 4)), "");

  const CsrMatrix pruned = drawn("2:4", 0.5);
  const auto almost = structure_of(compute_statistics(with_strays(pruned, pruned.nnz() / 100)));
  ASSERT_TRUE(almost);
  EXPECT_EQ(almost->name, "2:4");
  EXPECT_NEAR(almost->rest, 0.01, 0.001);
  EXPECT_EQ(structure_of(compute_statistics(pruned))->text(), "2:4");
}

TEST(WeightStructureTest, CountsByHand) {
  // 8 x 8, fp32: a full block of 4 x 4 at the top left, and two more in row 7: columns 1 and 6.
  CsrMatrix matrix;
  matrix.rows = 8;
  matrix.cols = 8;
  matrix.row_offsets = {0, 4, 8, 12, 16, 16, 16, 16, 18};
  for (int row = 0; row < 4; ++row)
    for (std::uint32_t column = 0; column < 4; ++column) matrix.column_indices.push_back(column);
  matrix.column_indices.insert(matrix.column_indices.end(), {1, 6});
  matrix.values.assign(18, 1.0F);
  const SparsityStatistics statistics = compute_statistics(matrix);
  EXPECT_EQ(statistics.groups[0][0], 10);
  EXPECT_EQ(statistics.groups[0][1], 2);
  EXPECT_EQ(statistics.groups[0][4], 4);
  EXPECT_EQ(statistics.groups[1][2], 1);
  EXPECT_DOUBLE_EQ(statistics.block_full[0], 0.25);
  EXPECT_DOUBLE_EQ(statistics.block_rest[0], 2.0 / 18);
  EXPECT_DOUBLE_EQ(statistics.block_full[1], 0);
  const auto all = structures_of(statistics);
  const auto at = [&](const std::string& name) { return *std::ranges::find(all, name, &WeightStructure::name); };
  EXPECT_DOUBLE_EQ(at("b4").fill, 1);
  EXPECT_EQ(at("b4").bytes, 3 * 4 + 4 + 16 * 4 + 9 * 4 + 2 * 6);
  EXPECT_DOUBLE_EQ(at("2:4").rest, 8.0 / 18);
  EXPECT_DOUBLE_EQ(at("2:4").fill, 10.0 / 32);
  EXPECT_EQ(at("2:4").bytes, 32 * 4 + 32 / 4 + 9 * 4 + 8 * 6);
  EXPECT_EQ(found(matrix), "");  // a ninth is outside
}

}  // namespace
}  // namespace sparsmith
