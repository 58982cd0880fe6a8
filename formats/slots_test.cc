#include "formats/slots.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "formats/slots_layout.h"
#include "tests/packing_checks.h"

namespace sparsmith::test {
namespace {

constexpr SlotColumns kAllColumns[] = {SlotColumns::kUint16, SlotColumns::kUint32, SlotColumns::kDelta8,
                                       SlotColumns::kOffset8};

SlotsPacking draw_packing(Random& random) {
  return {kAllColumns[random() % 4], 4 << random() % 3, 1 << random() % 3, static_cast<int>(1 + random() % 9)};
}

TEST(SlotsTest, UnpackingGivesTheMatrixBack) {
  DrawnRandom random;
  for (int round = 0; round < 300; ++round) {
    const CsrMatrix matrix = draw_uneven_matrix(random, static_cast<std::int64_t>(random() % 20),
                                                static_cast<std::int64_t>(1 + random() % 1200));
    const SlotsPacking packing = draw_packing(random);
    const DataType type = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat16;
    const auto packed = pack_slots(matrix, packing, type);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    expect_unpacks_to(matrix, *packed, unpack_slots);
    const auto again = pack_slots(matrix, packing, type);
    ASSERT_TRUE(again.ok());
    expect_same_bytes(*packed, *again);
  }
}

TEST(SlotsTest, EveryRowIsDealtOnceAndPartsAreBalanced) {
  Random random(3);
  const CsrMatrix matrix = draw_uneven_matrix(random, 500, 600);
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
  Random random(5);
  const CsrMatrix matrix = draw_matrix(random, 64, 4096, 0.02);
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

TEST(SlotsTest, DamageIsRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(random, 2000, unpack_slots, [&] {
    return pack_slots(draw_uneven_matrix(random, 5, 300), draw_packing(random), DataType::kFloat16);
  });
}

// Otherwise each row of a file of a megabyte could ask for all slots, and be a matrix of gigabytes.
TEST(SlotsTest, EveryRowHasItsOwnSlots) {
  Random random(3);
  const auto whole = pack_slots(draw_matrix(random, 20, 100, 0.5), {}, DataType::kFloat16);
  ASSERT_TRUE(whole.ok());
  const auto refused = [&](const auto& damage_it) {
    PackedWeight packed = *whole;
    damage_it(elements_of<slots::Row>(packed, "rows"));
    return !unpack_slots(packed).ok();
  };
  EXPECT_FALSE(refused([](std::span<slots::Row>) {}));
  EXPECT_TRUE(refused([](std::span<slots::Row> rows) { rows[1].range = rows[0].range; }));
  EXPECT_TRUE(refused([](std::span<slots::Row> rows) { rows[1].row = rows[0].row; }));
  EXPECT_TRUE(refused([](std::span<slots::Row> rows) { rows[1].row = slots::kNoRow; }));
}

}  // namespace
}  // namespace sparsmith::test
