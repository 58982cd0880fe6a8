#include "formats/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/half.h"
#include "formats/slots_layout.h"

namespace sparsmith {
namespace {

constexpr SlotColumns kAllColumns[] = {SlotColumns::kUint16, SlotColumns::kUint32, SlotColumns::kDelta8,
                                       SlotColumns::kOffset8};

// Rows of very different lengths: empty, full, and in between, some with long gaps.
CsrMatrix draw(std::mt19937_64& random, std::int64_t rows, std::int64_t cols) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint64_t density = random() % 5 == 0 ? 1000 : random() % 4 == 0 ? 4 : random() % 400;
    for (std::int64_t column = 0; column < cols; ++column) {
      if (random() % 1000 >= density) continue;
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(float_from_fp16(static_cast<std::uint16_t>(1 + random() % 0x7BFE)));
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

SlotsPacking draw_packing(std::mt19937_64& random) {
  return {kAllColumns[random() % 4], 4 << random() % 3, 1 << random() % 3, static_cast<int>(1 + random() % 9)};
}

TEST(SlotsTest, UnpackingGivesTheMatrixBack) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const CsrMatrix matrix =
        draw(random, static_cast<std::int64_t>(random() % 20), static_cast<std::int64_t>(1 + random() % 1200));
    const SlotsPacking packing = draw_packing(random);
    const DataType type = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat16;
    const auto packed = pack_slots(matrix, packing, type);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto back = unpack_slots(*packed);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(back->row_offsets, matrix.row_offsets);
    EXPECT_EQ(back->column_indices, matrix.column_indices);
    EXPECT_EQ(back->values, matrix.values);  // all fp16 values: exact in either type
    const auto again = pack_slots(matrix, packing, type);
    ASSERT_TRUE(again.ok());
    for (std::size_t i = 0; i < packed->arrays.size(); ++i) EXPECT_EQ(packed->arrays[i].bytes, again->arrays[i].bytes);
  }
}

TEST(SlotsTest, EveryRowIsDealtOnceAndPartsAreBalanced) {
  std::mt19937_64 random(3);
  const CsrMatrix matrix = draw(random, 500, 600);
  const auto packed = pack_slots(matrix, {SlotColumns::kUint16, 8, 1, 7}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->facts.at("parts"), 7);
  EXPECT_LT(packed->facts.at("balance"), 1020);
  std::vector<int> seen(500);
  for (const slots::Row& row : packed->array("rows")->as<slots::Row>())
    if (row.row != slots::kNoRow) ++seen[row.row];
  EXPECT_EQ(seen, std::vector<int>(500, 1));
}

// Empty rows cost something as well: they do not all end up in one part.
TEST(SlotsTest, EmptyRowsAreSpread) {
  CsrMatrix matrix;
  matrix.rows = 80;
  matrix.cols = 10;
  matrix.row_offsets.assign(81, 0);
  const auto packed = pack_slots(matrix, {SlotColumns::kUint16, 8, 1, 10}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->facts.at("rows_per_part"), 8);
  EXPECT_EQ(packed->facts.at("groups"), 0);
}

// The gathers of a step meet different banks nearly always where the order of nonzeros is free.
TEST(SlotsTest, OrderSpreadsBanks) {
  std::mt19937_64 random(5);
  CsrMatrix matrix;
  matrix.rows = 64;
  matrix.cols = 4096;
  for (int row = 0; row < 64; ++row) {
    for (std::uint32_t column = 0; column < 4096; ++column)
      if (random() % 50 == 0) {
        matrix.column_indices.push_back(column);
        matrix.values.push_back(1.0F);
      }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  const auto packed = pack_slots(matrix, {SlotColumns::kUint16, 8, 1, 1}, DataType::kFloat32);
  ASSERT_TRUE(packed.ok());
  const std::byte* bytes = packed->array("slots")->bytes.data();
  constexpr int kTileBytes = 32 * 8 * 6;
  double phases = 0;
  const auto groups = packed->facts.at("groups");
  for (std::int64_t group = 0; group < groups; ++group) {
    const auto* columns = reinterpret_cast<const std::uint16_t*>(bytes + group * kTileBytes + 32 * 8 * 4);
    for (int e = 0; e < 8; ++e) {
      std::vector<int> lanes(32);
      for (int lane = 0; lane < 32; ++lane)
        if (columns[lane * 8 + e] != 4096) ++lanes[columns[lane * 8 + e] % 32];
      phases += *std::max_element(lanes.begin(), lanes.end());
    }
  }
  EXPECT_LT(phases / static_cast<double>(groups * 8), 2.1) << "3.4 in random order";
}

TEST(SlotsTest, RefusesWhatItCannotHold) {
  CsrMatrix matrix;
  matrix.rows = 1;
  matrix.cols = 65536;
  matrix.row_offsets = {0, 0};
  EXPECT_EQ(pack_slots(matrix, {SlotColumns::kUint16}, DataType::kFloat16).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(pack_slots(matrix, {SlotColumns::kOffset8}, DataType::kFloat16).ok());
  matrix.cols = 65537;
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kDelta8}, DataType::kFloat16).ok());
  EXPECT_TRUE(pack_slots(matrix, {SlotColumns::kUint32}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kUint32, 5}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kUint32, 8, 3}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kUint32, 8, 1, 0}, DataType::kFloat16).ok());
}

// Damaged arrays and facts give an error or some matrix, never an access outside (a sanitizer sees it).
TEST(SlotsTest, DamageIsAnError) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    const CsrMatrix matrix = draw(random, 5, 300);
    auto packed = pack_slots(matrix, draw_packing(random), DataType::kFloat16);
    ASSERT_TRUE(packed.ok());
    auto fact = packed->facts.begin();
    std::advance(fact, static_cast<int>(random() % packed->facts.size()));
    if (random() % 3 == 0) fact->second += static_cast<std::int64_t>(random() % 5) - 2;
    for (PackedArray& array : packed->arrays) {
      if (array.bytes.empty()) continue;
      array.bytes[random() % array.bytes.size()] ^= static_cast<std::byte>(1U << random() % 8);
      if (random() % 8 == 0) array.bytes.resize(array.bytes.size() - 8);
    }
    const auto back = unpack_slots(*packed);
    if (back.ok()) {
      for (const std::uint32_t column : back->column_indices) ASSERT_LT(column, 300U);
    }
  }
}

}  // namespace
}  // namespace sparsmith
