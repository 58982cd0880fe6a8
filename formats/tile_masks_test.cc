#include "formats/tile_masks.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/ceil_div.h"
#include "tests/support/drawn_packings.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

CsrMatrix weight_of(std::int64_t rows, std::int64_t cols,
                    const std::map<std::int64_t, std::vector<std::uint32_t>>& columns) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.data_type = DataType::kFloat16;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (columns.contains(row)) {
      const std::vector<std::uint32_t>& of_row = columns.at(row);
      matrix.column_indices.insert(matrix.column_indices.end(), of_row.begin(), of_row.end());
    }
    matrix.row_offsets.push_back(std::ssize(matrix.column_indices));
  }
  matrix.values.assign(matrix.column_indices.size(), 1.0F);
  return matrix;
}

std::vector<std::uint32_t> list(const PackedWeight& packed, const char* name) {
  const auto numbers = packed.array(name)->as<std::uint32_t>();
  return {numbers.begin(), numbers.end()};
}

// Row of tiles 0 has tiles 0, 2 and 6, row 1 has tile 2, row 2 nothing.
TEST(TileMasksTest, TilesThatHoldSomethingStandInGroups) {
  const CsrMatrix matrix = weight_of(150, 400, {{1, {0, 3, 160, 399}}, {63, {191}}, {64, {128, 129}}});
  const auto packed = pack_tile_masks(matrix, {64, 1, 128}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  EXPECT_EQ(packed->packing, "tile_masks_c64_r1_g128");
  EXPECT_EQ(packed->facts, (Facts{{"groups", 4}, {"tiles", 4}, {"nonzeros", 7}}));
  // Groups of 2 columns of tiles come first.
  EXPECT_EQ(list(*packed, "group_panels"), (std::vector<std::uint32_t>{0, 0, 1, 2}));
  EXPECT_EQ(list(*packed, "group_tiles"), (std::vector<std::uint32_t>{0, 2, 3, 4, 4}));
  EXPECT_EQ(list(*packed, "columns"), (std::vector<std::uint32_t>{2, 6, 0, 2}));
}

TEST(TileMasksTest, UnpackingGivesThePatternBack) {
  DrawnRandom random;
  for (int round = 0; round < 100; ++round) {
    CsrMatrix matrix =
        draw_matrix(random, static_cast<std::int64_t>(random() % 300), static_cast<std::int64_t>(1 + random() % 900),
                    static_cast<double>(random() % 3) / 2);
    const TileMasksPacking packing = draw_tile_masks_packing(random);
    const auto packed = pack_tile_masks(matrix, packing, DataType::kBFloat16);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    std::ranges::fill(matrix.values, 1.0F);
    expect_unpacks_to(matrix, *packed);
  }
}

// What a kernel makes of the arrays: each element of the pattern once, at its place in CSR.
TEST(TileMasksTest, EveryElementHasItsPlace) {
  DrawnRandom random;
  for (int round = 0; round < 100; ++round) {
    const CsrMatrix matrix =
        draw_matrix(random, static_cast<std::int64_t>(1 + random() % 300),
                    static_cast<std::int64_t>(1 + random() % 900), static_cast<double>(random() % 10) / 10);
    const TileMasksPacking packing = draw_tile_masks_packing(random);
    const auto packed = pack_tile_masks(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    const auto panels = list(*packed, "group_panels");
    const auto tiles = list(*packed, "group_tiles");
    const auto columns = list(*packed, "columns");
    const auto masks = list(*packed, "masks");
    const auto firsts = list(*packed, "firsts");
    const std::int64_t rows = 64 * packing.row_tiles;
    const std::int64_t words = packing.columns / 32;
    std::vector<int> seen(static_cast<std::size_t>(matrix.nnz()));
    for (std::size_t group = 0; group < panels.size(); ++group) {
      const std::int64_t count = std::int64_t{tiles[group + 1]} - tiles[group];
      EXPECT_LE(count * packing.columns, packing.group_columns);
      EXPECT_EQ(count * packing.columns % 64, 0);
      for (std::int64_t at = tiles[group] * rows; at < tiles[group + 1] * rows; ++at) {
        std::int64_t place = firsts[at];
        for (std::int64_t c = 0; c < packing.columns; ++c) {
          if ((masks[at * words + c / 32] >> c % 32 & 1U) == 0) continue;
          const std::int64_t row = panels[group] * rows + at % rows;
          ASSERT_LT(place, matrix.row_offsets[row + 1]);
          ASSERT_GE(place, matrix.row_offsets[row]);
          EXPECT_EQ(matrix.column_indices[place], columns[at / rows] * packing.columns + c);
          ++seen[place++];
        }
      }
    }
    EXPECT_EQ(std::ranges::count(seen, 1), matrix.nnz()) << packing.name();
  }
}

// Groups of full rows of tiles are the same in all of them: blocks of threads share X.
TEST(TileMasksTest, GroupsOfAFullWeightGoAlongItsColumns) {
  Random random(5);
  const CsrMatrix matrix = draw_matrix(random, 256, 640, 1.0);
  const auto packed = pack_tile_masks(matrix, {64, 2, 256}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  EXPECT_EQ(list(*packed, "group_panels"), (std::vector<std::uint32_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(list(*packed, "group_tiles"), (std::vector<std::uint32_t>{0, 4, 8, 11, 14, 17, 20}));
  EXPECT_EQ(packed->array("masks")->bytes.size() + packed->array("firsts")->bytes.size(), 12U * 20 * 128);
}

TEST(TileMasksTest, RefusesWhatItCannotHold) {
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 20, 70, 0.5);
  EXPECT_EQ(pack_tile_masks(matrix, {}, DataType::kFloat32).status().code(), StatusCode::kInvalidArgument);
  for (const TileMasksPacking& none : {TileMasksPacking{48, 1, 256}, {64, 3, 256}, {64, 1, 64}})
    EXPECT_EQ(pack_tile_masks(matrix, none, DataType::kFloat16).status().code(), StatusCode::kInvalidInput);
}

TEST(TileMasksTest, DamagedPackingsAreRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(random, 2000, [&] {
    return pack_tile_masks(draw_matrix(random, 140, 300, 0.02), draw_tile_masks_packing(random), DataType::kFloat16);
  });
}

}  // namespace
}  // namespace sparsmith::test
