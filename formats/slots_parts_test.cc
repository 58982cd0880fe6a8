// Parts of two sizes, and long rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "formats/slots.h"
#include "formats/slots_layout.h"
#include "tests/support/drawn_slots.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

// Row lengths fall as a power of the rank, in drawn order.
CsrMatrix draw_power_matrix(Random& random, std::int64_t rows, std::int64_t cols, double longest, double exponent) {
  std::vector<double> ranks(static_cast<std::size_t>(rows));
  std::iota(ranks.begin(), ranks.end(), 1.0);
  std::shuffle(ranks.begin(), ranks.end(), random);
  return draw_matrix(random, rows, cols, [&](std::int64_t row) {
    return std::min(1.0, longest / std::pow(ranks[static_cast<std::size_t>(row)], exponent));
  });
}

std::int64_t groups_in(const PackedWeight& packed) {
  return packed.facts.at("heavy_parts") * packed.facts.at("heavy_groups") +
         (packed.facts.at("parts") - packed.facts.at("heavy_parts")) * packed.facts.at("groups");
}

TEST(SlotsPartsTest, HeavyPartsUnpack) {
  DrawnRandom random;
  int heavy = 0;
  for (int round = 0; round < 100; ++round) {
    const CsrMatrix matrix = draw_power_matrix(
        random, static_cast<std::int64_t>(1 + random() % 60), static_cast<std::int64_t>(300 + random() % 1500),
        static_cast<double>(1 + random() % 30) / 10, static_cast<double>(5 + random() % 20) / 10);
    const auto packed = pack_slots(matrix, draw_slots_packing(random, matrix.cols), DataType::kFloat16);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    expect_unpacks_to(matrix, *packed);
    const std::int64_t equal = packed->facts.at("parts") * packed->facts.at("heavy_groups");
    if (packed->facts.at("heavy_parts") > 0) {
      EXPECT_LE(50 * groups_in(*packed), 49 * equal);
      ++heavy;
    }
    EXPECT_EQ(packed->facts.at("stored"), groups_in(*packed) * slots::kLanes * packed->facts.at("vector_width") *
                                              packed->facts.at("tiles_per_slot"));
  }
  EXPECT_GT(heavy, 10);
}

// Heavy parts, their groups, and the groups of the others, of a weight whose rows have so many slots.
std::vector<std::int64_t> sizes_of(const std::vector<std::int64_t>& row_slots, int parts) {
  CsrMatrix matrix;
  matrix.rows = std::ssize(row_slots);
  matrix.cols = 32768;
  for (const std::int64_t count : row_slots) {
    for (std::int64_t i = 0; i < 4 * count; ++i) matrix.column_indices.push_back(static_cast<std::uint32_t>(i));
    matrix.row_offsets.push_back(std::ssize(matrix.column_indices));
  }
  matrix.values.assign(matrix.column_indices.size(), 1.0F);
  const auto packed = pack_slots(matrix, {SlotColumns::kUint16, 4, 1, parts}, DataType::kFloat32);
  EXPECT_TRUE(packed.ok()) << packed.status().to_string();
  expect_unpacks_to(matrix, *packed);
  return {packed->facts.at("heavy_parts"), packed->facts.at("heavy_groups"), packed->facts.at("groups")};
}

TEST(SlotsPartsTest, HeavyPartsAreThoseThatStoreTheFewestBytes) {
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes_of({0, 0, 320, 0}, 4), (Sizes{1, 10, 0})) << "one full row";
  EXPECT_EQ(sizes_of({320, 320, 320, 320}, 4), (Sizes{0, 10, 10})) << "all rows full";
  EXPECT_EQ(sizes_of({320}, 4), (Sizes{0, 10, 10})) << "M = 1";
  EXPECT_EQ(sizes_of({320, 32, 32}, 1), (Sizes{0, 12, 12})) << "one part";
  EXPECT_EQ(sizes_of({0, 0}, 2), (Sizes{0, 0, 0})) << "nothing";
  EXPECT_EQ(sizes_of({32, 640, 64, 608, 32, 32}, 6), (Sizes{2, 20, 2})) << "two long rows";
  EXPECT_EQ(sizes_of({640, 320, 320, 320, 320}, 5), (Sizes{1, 20, 10}));
  EXPECT_EQ(sizes_of({1312, 1280, 1280, 1280}, 4), (Sizes{0, 41, 41})) << "1.8 % less";
  EXPECT_EQ(sizes_of({1248, 1216, 1216, 1216, 1216, 1216, 1216, 1216}, 8), (Sizes{1, 39, 38})) << "2.2 % less";
}

// Kernels read neither facts nor more than the first descriptor to know where a part lies and how long its rows are.
TEST(SlotsPartsTest, SizesOfPartsAndLongestRowsAreChecked) {
  Random random(3);
  const CsrMatrix matrix = draw_power_matrix(random, 40, 1000, 1.0, 1.5);
  const auto whole = pack_slots(matrix, {SlotColumns::kUint16, 4, 1, 8}, DataType::kFloat16);
  ASSERT_TRUE(whole.ok());
  ASSERT_GT(whole->facts.at("heavy_parts"), 0);
  const auto refused = [&](const auto& damage_it) {
    PackedWeight packed = *whole;
    damage_it(packed);
    return unpack(packed).status().code() == StatusCode::kInvalidInput;
  };
  EXPECT_FALSE(refused([](PackedWeight&) {}));
  for (const char* fact : {"groups", "heavy_parts", "heavy_groups"}) {
    EXPECT_TRUE(refused([&](PackedWeight& packed) { packed.facts.erase(fact); })) << fact;
    EXPECT_TRUE(refused([&](PackedWeight& packed) { packed.facts[fact] = -1; })) << fact;
    EXPECT_TRUE(refused([&](PackedWeight& packed) { packed.facts[fact] = 1LL << 33; })) << fact;
    EXPECT_TRUE(refused([&](PackedWeight& packed) { ++packed.facts[fact]; })) << fact;
  }
  EXPECT_TRUE(refused([](PackedWeight& packed) { packed.facts["heavy_parts"] = 8; })) << "all parts";
  EXPECT_TRUE(refused([](PackedWeight& packed) { std::swap(packed.facts["groups"], packed.facts["heavy_groups"]); }));
  EXPECT_TRUE(refused([](PackedWeight& packed) {
    packed.facts["heavy_parts"] = 0;
    packed.facts["groups"] = packed.facts["heavy_groups"];
  }));
  // The first row gives slots to the next one.
  EXPECT_TRUE(refused([](PackedWeight& packed) {
    const std::int64_t per_part = packed.facts.at("rows_per_part");
    const std::span<slots::Row> rows = elements_of<slots::Row>(packed, "rows").subspan(7 * per_part);
    ASSERT_GT(rows[1].range >> 16, 0U);
    const unsigned total = (rows[0].range >> 16) + (rows[1].range >> 16);
    rows[0].range = (rows[1].range >> 16) << 16;
    rows[1].range = (rows[1].range >> 16) | (total - (rows[1].range >> 16)) << 16;
  }));
  EXPECT_TRUE(refused([](PackedWeight& packed) { elements_of<slots::Row>(packed, "rows")[7].range = 1U << 16; }))
      << "slots of no row";
}

}  // namespace
}  // namespace sparsmith::test
