#include "formats/row_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "base/ceil_div.h"
#include "formats/bsr_layout.h"
#include "tests/support/drawn_matrix.h"

namespace sparsmith::test {
namespace {

using bsr::kHalfRows;
using testing::ElementsAre;

// How many columns the rows of an order have, where two that stand beside each other have those of both.
std::int64_t columns_of_pairs(const BlockColumns& columns, const std::vector<std::uint32_t>& order) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < order.size(); i += 2) {
    std::vector<std::uint32_t> both;
    std::ranges::set_union(columns[order[i]], i + 1 < order.size() ? columns[order[i + 1]] : columns[order[i]],
                           std::back_inserter(both));
    count += std::ssize(both);
  }
  return count;
}

std::vector<std::uint32_t> natural_order(std::size_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

TEST(RowPairsTest, RowsWithTheSameColumnsStandBesideEachOther) {
  const BlockColumns columns{{1, 2}, {4}, {1, 2, 3}, {}, {4, 5, 6, 7}, {0}, {4}};
  // The longest pair first; of those with as many columns in common, neighbours; an odd row last.
  EXPECT_THAT(order_in_pairs(columns, 8), ElementsAre(4, 6, 2, 0, 1, 3, 5));
  EXPECT_THAT(order_in_pairs({}, 8), ElementsAre());
  EXPECT_THAT(order_in_pairs({{}}, 0), ElementsAre(0));
}

TEST(RowPairsTest, PairsHaveMoreInCommonThanNeighbours) {
  DrawnRandom random;
  BlockColumns columns(1100);  // more than are compared at once
  for (std::vector<std::uint32_t>& row : columns)
    for (std::uint32_t column = 0; column < 128; ++column)
      if (random() % 10 == 0) row.push_back(column);
  const std::vector<std::uint32_t> order = order_in_pairs(columns, 128);
  std::vector<std::uint32_t> sorted = order;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, natural_order(columns.size()));
  // 19 columns of neighbours, 16.5 of pairs.
  EXPECT_LT(columns_of_pairs(columns, order), columns_of_pairs(columns, natural_order(columns.size())) * 9 / 10);
}

TEST(RowPairsTest, AHalfIs32RowsOfTheWeight) {
  DrawnRandom random;
  for (int round = 0; round < 20; ++round) {
    const CsrMatrix matrix = draw_matrix(random, static_cast<std::int64_t>(random() % 700),
                                         static_cast<std::int64_t>(1 + random() % 900), 0.01);
    const std::vector<std::uint32_t> halves = halves_in_pairs(matrix, 32);
    EXPECT_EQ(std::ssize(halves), ceil_div(matrix.rows, std::int64_t{2 * kHalfRows}) * 2);
    std::vector<std::uint32_t> sorted = halves;
    std::ranges::sort(sorted);
    EXPECT_EQ(sorted, natural_order(halves.size()));
    for (std::int64_t row = 0; row < std::ssize(halves) * kHalfRows; ++row)
      EXPECT_EQ(weight_rows(halves, row, 1)[0], halves[row / kHalfRows] * kHalfRows + row % kHalfRows);
  }
}

// What was pruned in blocks of 64 is not torn apart.
TEST(RowPairsTest, NeighboursWithTheSameColumnsStayNeighbours) {
  CsrMatrix matrix;
  matrix.rows = 4 * 64;
  matrix.cols = 4 * 64;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    matrix.column_indices.push_back(static_cast<std::uint32_t>(row / 64 * 64 + row % 64));
    matrix.values.push_back(1.0F);
    matrix.row_offsets.push_back(matrix.nnz());
  }
  EXPECT_THAT(halves_in_pairs(matrix, 64), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(block_columns_of(matrix, weight_rows({}, 192, 128), 64), ElementsAre(3));
}

TEST(RowPairsTest, AnOrderHasEachNumberOnce) {
  const auto read = [](const std::array<std::uint32_t, 3>& numbers) {
    return read_order(Elements<std::uint32_t>(std::as_bytes(std::span(numbers))), "halves");
  };
  EXPECT_THAT(*read({2, 0, 1}), ElementsAre(2, 0, 1));
  EXPECT_EQ(read({2, 0, 3}).status().message(), "halves: place 2 has 3, which is not there or has a place already");
  EXPECT_EQ(read({2, 0, 2}).status().code(), StatusCode::kInvalidInput);
}

}  // namespace
}  // namespace sparsmith::test
