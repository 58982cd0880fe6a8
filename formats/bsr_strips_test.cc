#include "formats/bsr_strips.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "formats/bsr_strips_layout.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

BsrStripsPacking draw_packing(Random& random) { return {1 + static_cast<int>(random() % 2)}; }

TEST(BsrStripsTest, EveryElementOfATileHasItsPlaceInAnOperand) {
  std::set<int> seen;
  for (int row = 0; row < bsr_strips::kTileRows; ++row) {
    for (int column = 0; column < bsr_strips::kStepColumns; ++column) {
      const int index = bsr_strips::element_index(row, column);
      seen.insert(index);
      // As bsr_strips_layout.h says it, the other way round.
      const int lane = index / 8;
      const int a = index % 8;
      EXPECT_EQ(row, lane / 4 + 8 * (a / 2 % 2));
      EXPECT_EQ(column, 2 * (lane % 4) + a % 2 + 8 * (a / 4));
    }
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(bsr_strips::kTileElements));
  EXPECT_EQ(*seen.rbegin(), bsr_strips::kTileElements - 1);
}

// Panel 0 has chunks 0, 1 and 5 of strip 0 and chunk 15 of strip 8; panel 1 nothing; panel 2 has five chunks of
// strip 2.
TEST(BsrStripsTest, ChunksOfAStripStandInPairs) {
  CsrMatrix matrix;
  matrix.rows = 40;
  matrix.cols = 9 * 128;
  const auto add_row = [&](std::initializer_list<std::uint32_t> columns) {
    for (const std::uint32_t column : columns) {
      matrix.column_indices.push_back(column);
      matrix.values.push_back(static_cast<float>(column + 1));
    }
    matrix.row_offsets.push_back(matrix.nnz());
  };
  for (int row = 0; row < 40; ++row) {
    if (row == 3) {
      add_row({7, 8, 8 * 128 + 127});
    } else if (row == 15) {
      add_row({0, 40});
    } else if (row == 39) {
      add_row({256, 264, 272, 280, 288});
    } else {
      add_row({});
    }
  }
  const auto packed = pack_bsr_strips(matrix, {1}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  const auto list = [&](const char* name) {
    const auto numbers = packed->array(name)->as<std::uint32_t>();
    return std::vector(numbers.begin(), numbers.end());
  };
  const auto word = [](std::uint32_t strip, std::uint32_t first, std::uint32_t second) {
    return strip << 8 | second << 4 | first;
  };
  EXPECT_EQ(list("panels"), (std::vector<std::uint32_t>{0, 2, 1}));
  EXPECT_EQ(list("steps"), (std::vector<std::uint32_t>{word(0, 0, 1), word(0, 5, 5), word(8, 15, 15), word(2, 0, 1),
                                                       word(2, 2, 3), word(2, 4, 4)}));
  EXPECT_EQ(list("part_steps"), (std::vector<std::uint32_t>{0, 2, 2, 3, 3, 6, 6, 6, 6, 6, 6, 6, 6}));
  EXPECT_EQ(packed->array("values")->bytes.size(), 6U * 512);
  EXPECT_EQ(packed->packing, "bsr_strips_r1");
  expect_unpacks_to(matrix, *packed);
}

TEST(BsrStripsTest, UnpackingGivesTheMatrixBack) {
  DrawnRandom random;
  for (int round = 0; round < 100; ++round) {
    const CsrMatrix matrix =
        draw_matrix(random, static_cast<std::int64_t>(random() % 150), static_cast<std::int64_t>(1 + random() % 700),
                    static_cast<double>(random() % 3) / 2);
    const BsrStripsPacking packing = draw_packing(random);
    const auto packed = pack_bsr_strips(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    EXPECT_EQ(packed->packing, packing.name());
    expect_unpacks_to(matrix, *packed);
    const auto again = pack_bsr_strips(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(again.ok());
    expect_same_bytes(*packed, *again);
  }
}

TEST(BsrStripsTest, AWeightThatIsRoundedToZeroIsNotNothing) {
  CsrMatrix matrix;
  matrix.rows = 1;
  matrix.cols = 3;
  matrix.column_indices = {0, 1, 2};
  matrix.values = {1e-12F, -1e-12F, 1.0F};
  matrix.row_offsets.push_back(3);
  const auto packed = pack_bsr_strips(matrix, {1}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  const auto bits = packed->array("values")->as<std::uint16_t>();
  EXPECT_EQ(std::ranges::count(bits, bsr_strips::kNothing), bsr_strips::kTileElements - 3);
}

TEST(BsrStripsTest, RefusesWhatItCannotHold) {
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 20, 70, 0.5);
  EXPECT_EQ(pack_bsr_strips(matrix, {}, DataType::kFloat32).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pack_bsr_strips(matrix, {3}, DataType::kFloat16).status().code(), StatusCode::kInvalidInput);
}

TEST(BsrStripsTest, DamagedPackingsAreRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(random, 2000, [&] {
    return pack_bsr_strips(draw_matrix(random, 40, 300, 0.1), draw_packing(random), DataType::kFloat16);
  });
}

}  // namespace
}  // namespace sparsmith::test
