#include "formats/bsr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "formats/bsr_layout.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

BsrPacking draw_packing(Random& random) {
  if (random() % 3 == 0) return {.tiles = 4, .line = random() % 2 == 0 ? 32 : 64};
  return {1 << random() % 3, random() % 2 == 0};
}

TEST(BsrTest, EveryElementOfATileHasItsPlaceInAFragment) {
  std::set<int> seen;
  for (int row = 0; row < bsr::kTileRows; ++row) {
    for (int column = 0; column < bsr::kBlockColumns; ++column) {
      const int index = bsr::element_index(row, column);
      seen.insert(index);
      // As bsr_layout.h says it, the other way round.
      const int q = index / (8 * bsr::kLanes);
      const int lane = index / 8 % bsr::kLanes;
      const int a = index % 8;
      EXPECT_EQ(row, lane / 4 + 8 * (a / 2 % 2));
      EXPECT_EQ(column, 8 * (lane % 4) + 4 * q + 2 * (a / 4) + a % 2);
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(bsr::kTileElements));
  EXPECT_EQ(*seen.rbegin(), bsr::kTileElements - 1);
}

// Tensor cores find chunk h of row r at its address, whose bits 4 and up are changed by bits 7 and up.
TEST(BsrTest, EveryElementOfABlockOfLinesHasItsPlace) {
  for (const int columns : {32, 64}) {
    std::set<int> seen;
    for (int row = 0; row < bsr::kLineRows; ++row) {
      for (int column = 0; column < columns; ++column) {
        const int index = bsr::line_index(columns, row, column);
        seen.insert(index);
        const int plain = (row * columns + column) * 2;
        EXPECT_EQ(index * 2, plain ^ (plain / 128 % (columns / 8)) * 16);
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(bsr::kLineRows * columns));
    EXPECT_EQ(*seen.rbegin(), bsr::kLineRows * columns - 1);
  }
}

// Rows of blocks 0 and 2 have the same columns, 1 and 3 others, row 4 most of all.
TEST(BsrTest, RowsOfBlocksStandBesideThoseWithTheSameColumns) {
  CsrMatrix matrix;
  matrix.rows = 5 * 64;
  matrix.cols = 10 * 64;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t block_row = row / 64;
    for (std::uint32_t block = 0; block < 10; ++block) {
      if (row % 64 != 7 || (block_row < 4 && block % 2 != block_row % 2)) continue;
      matrix.column_indices.push_back(block * 64 + 5);
      matrix.values.push_back(1.0F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  const auto packed = pack_bsr(matrix, {.tiles = 4, .line = 64}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  const auto order = packed->array("row_order")->as<std::uint32_t>();
  EXPECT_EQ(std::vector(order.begin(), order.end()), (std::vector<std::uint32_t>{4, 3, 0, 2, 1}));
  EXPECT_EQ(packed->array("blocks")->bytes.size(), 30U * 8192);
  EXPECT_EQ(packed->packing, "bsr_lines64");
}

TEST(BsrTest, UnpackingGivesTheMatrixBack) {
  DrawnRandom random;
  for (int round = 0; round < 100; ++round) {
    const CsrMatrix matrix =
        draw_matrix(random, static_cast<std::int64_t>(random() % 150), static_cast<std::int64_t>(1 + random() % 200),
                    static_cast<double>(random() % 3) / 2);
    const BsrPacking packing = draw_packing(random);
    const auto packed = pack_bsr(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    EXPECT_EQ(packed->packing, packing.name());
    expect_unpacks_to(matrix, *packed);
    const auto again = pack_bsr(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(again.ok());
    expect_same_bytes(*packed, *again);
  }
}

TEST(BsrTest, OnlyBlocksWithANonzeroAreListed) {
  CsrMatrix matrix;
  matrix.rows = 70;
  matrix.cols = 100;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    if (row == 3 || row == 31 || row == 69) {
      matrix.column_indices.push_back(row == 31 ? 31 : 96);
      matrix.values.push_back(static_cast<float>(row));
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  const auto packed = pack_bsr(matrix, {2, false}, DataType::kBFloat16);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  EXPECT_EQ(packed->facts.at("blocks"), 3);
  const auto firsts = packed->array("row_blocks")->as<std::uint32_t>();
  const auto columns = packed->array("block_columns")->as<std::uint32_t>();
  EXPECT_EQ(std::vector(firsts.begin(), firsts.end()), (std::vector<std::uint32_t>{0, 2, 2, 3}));
  EXPECT_EQ(std::vector(columns.begin(), columns.end()), (std::vector<std::uint32_t>{0, 3, 3}));
  EXPECT_EQ(packed->array("blocks")->bytes.size(), 3U * 2 * 1024);
  expect_unpacks_to(matrix, *packed);

  const auto all = pack_bsr(matrix, {2, true}, DataType::kBFloat16);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->facts.at("blocks"), 12);
  EXPECT_TRUE(all->array("row_blocks")->bytes.empty());
}

TEST(BsrTest, AWeightThatIsRoundedToZeroIsNotNothing) {
  CsrMatrix matrix;
  matrix.rows = 1;
  matrix.cols = 3;
  matrix.column_indices = {0, 1, 2};
  matrix.values = {1e-12F, -1e-12F, 1.0F};
  matrix.row_offsets.push_back(3);
  const auto packed = pack_bsr(matrix, {1, true}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  const auto bits = packed->array("blocks")->as<std::uint16_t>();
  EXPECT_EQ(std::ranges::count(bits, bsr::kNothing), bsr::kTileElements - 3);
}

TEST(BsrTest, RefusesWhatItCannotHold) {
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 20, 70, 0.5);
  EXPECT_EQ(pack_bsr(matrix, {}, DataType::kFloat32).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pack_bsr(matrix, {3, false}, DataType::kFloat16).status().code(), StatusCode::kInvalidInput);
}

TEST(BsrTest, DamagedPackingsAreRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(random, 2000, [&] {
    return pack_bsr(draw_matrix(random, 40, 90, 0.2), draw_packing(random), DataType::kFloat16);
  });
}

}  // namespace
}  // namespace sparsmith::test
