#include "formats/two_four.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

#include "formats/two_four_layout.h"
#include "tests/support/drawn_two_four.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

TEST(TwoFourTest, EveryGroupOfATileHasItsPlace) {
  std::set<int> values;
  std::set<std::pair<int, int>> bits;
  for (int row = 0; row < two_four::kTileRows; ++row) {
    for (int column = 0; column < two_four::kStripColumns; column += two_four::kGroup) {
      const two_four::GroupPlace place = two_four::place_of_group(row, column);
      values.insert(place.values);
      bits.insert({place.word, place.bit});
      EXPECT_EQ(place.values % 2, 0);
      // As the machine has it: of multiplication q the lane's register v is of row g + 8 (v % 2) and group t + 4 (v /
      // 2).
      const int q = place.values / (8 * two_four::kLanes);
      const int lane = place.values / 8 % two_four::kLanes ^ q;
      const int v = place.values % 8 / 2;
      EXPECT_EQ(row, lane / 4 + 8 * (v % 2));
      const int u = lane % 4 + 4 * (v / 2);
      EXPECT_EQ(place.word, lane / 4 * 4 + 2 * (u / 4) + q);
      EXPECT_EQ(place.bit, 16 * (v % 2) + 4 * (u % 4));
      // As two_four_layout.h says it: group u of multiplication q is of columns that lanes 2 p and 2 p + 1 load.
      const int p = u % 2;
      const int i = 2 * q + u / 2 % 2;
      EXPECT_EQ(column, 16 * (2 * p + u / 4) + 4 * i);
      // For warpgroups, whose multiplication m has column 32 m + 4 w as its group w: the lane of group w % 4 finds its
      // register v in the same one of a lane beside it.
      const int m = column / 32;
      const int w = column % 32 / 4;
      EXPECT_EQ(v, 2 * (w / 4) + row / 8);
      EXPECT_EQ(place.values / 8, w % 4 / 2 * two_four::kLanes + ((row % 8 * 4 + w % 2 * 2 + m) ^ w % 4 / 2));
    }
  }
  EXPECT_EQ(values.size(), 256U);
  EXPECT_EQ(*values.rbegin(), 510);
  EXPECT_EQ(bits.size(), 256U);
}

TEST(TwoFourTest, UnpackingGivesTheMatrixBack) {
  DrawnRandom random;
  for (int round = 0; round < 100; ++round) {
    const CsrMatrix matrix =
        draw_two_four(random, static_cast<std::int64_t>(random() % 150), static_cast<std::int64_t>(1 + random() % 200),
                      static_cast<double>(random() % 3) / 2);
    const auto packed = pack_two_four(matrix, DataType::kFloat16);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    EXPECT_EQ(packed->packing, kTwoFourPacking);
    expect_unpacks_to(matrix, *packed);
    const auto again = pack_two_four(matrix, DataType::kFloat16);
    ASSERT_TRUE(again.ok());
    expect_same_bytes(*packed, *again);
  }
}

TEST(TwoFourTest, PlacesAscendWhateverAGroupHolds) {
  // Rows with each choice of at most two out of four columns.
  CsrMatrix matrix;
  matrix.cols = 4;
  for (std::uint32_t chosen = 0; chosen < 16; ++chosen) {
    if (std::popcount(chosen) > 2) continue;
    for (std::uint32_t column = 0; column < 4; ++column) {
      if ((chosen >> column & 1U) == 0) continue;
      matrix.column_indices.push_back(column);
      matrix.values.push_back(static_cast<float>(column + 1));
    }
    matrix.row_offsets.push_back(matrix.nnz());
    ++matrix.rows;
  }
  const auto packed = pack_two_four(matrix, DataType::kFloat16);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  expect_unpacks_to(matrix, *packed);
  ASSERT_EQ(packed->bytes(), two_four::kStripBytes);
  for (int tile = 0; tile < two_four::kPanelTiles; ++tile) {
    const auto* words = reinterpret_cast<const std::uint32_t*>(packed->arrays[0].bytes.data() +
                                                               tile * two_four::kTileBytes + two_four::kValueBytes);
    for (int word = 0; word < two_four::kLanes; ++word)
      for (int bit = 0; bit < 32; bit += 4) EXPECT_LT(words[word] >> bit & 3U, words[word] >> (bit + 2) & 3U);
  }
}

TEST(TwoFourTest, ZerosThatAreHeldAreNotNothing) {
  CsrMatrix matrix;
  matrix.rows = 1;
  matrix.cols = 12;
  matrix.column_indices = {0, 3, 5, 8};
  matrix.values = {0.0F, -0.0F, 1e-12F, -1e-12F};  // the last two are rounded to 0
  matrix.row_offsets.push_back(4);
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    const auto packed = pack_two_four(matrix, type);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto* values = reinterpret_cast<const std::uint16_t*>(packed->arrays[0].bytes.data());
    EXPECT_EQ(std::count(values, values + two_four::kValueBytes / 2, two_four::kNothing),
              two_four::kValueBytes / 2 - 4);
  }
}

TEST(TwoFourTest, TakesNineBytesForEightElements) {
  Random random(4);
  const CsrMatrix matrix = draw_two_four(random, 256, 1024, 1.0);
  const auto packed = pack_two_four(matrix, DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->bytes() * 8, 256 * 1024 * 9);
}

TEST(TwoFourTest, RefusesWhatItCannotHold) {
  Random random(3);
  const CsrMatrix matrix = draw_two_four(random, 20, 70, 1.0);
  EXPECT_EQ(pack_two_four(matrix, DataType::kFloat32).status().code(), StatusCode::kInvalidArgument);
  CsrMatrix three;
  three.rows = 2;
  three.cols = 8;
  three.column_indices = {1, 3, 4, 6, 7};
  three.values = {1, 1, 1, 1, 1};
  three.row_offsets.push_back(0);
  three.row_offsets.push_back(5);
  const auto refused = pack_two_four(three, DataType::kFloat16);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("row 1"), std::string::npos);
}

TEST(TwoFourTest, PlacesThatDoNotAscendAreRefused) {
  Random random(3);
  auto packed = pack_two_four(draw_two_four(random, 20, 70, 0.5), DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  packed->arrays[0].bytes[two_four::kValueBytes] |= static_cast<std::byte>(3);
  EXPECT_EQ(unpack(*packed).status().code(), StatusCode::kInvalidInput);
}

TEST(TwoFourTest, DamagedPackingsAreRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(
      random, 2000, [&] { return pack_two_four(draw_two_four(random, 40, 90, 0.4), DataType::kFloat16); });
}

}  // namespace
}  // namespace sparsmith::test
