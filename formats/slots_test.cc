#include "formats/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <set>

#include "base/half.h"
#include "formats/slots_layout.h"
#include "formats/slots_steps.h"
#include "formats/slots_tiles.h"
#include "tests/support/drawn_packings.h"
#include "tests/support/packing_checks.h"
#include "tests/support/slot_bits.h"

namespace sparsmith::test {
namespace {

TEST(SlotsTest, UnpackingGivesTheMatrixBack) {
  DrawnRandom random;
  for (int round = 0; round < 300; ++round) {
    const CsrMatrix matrix = draw_uneven_matrix(random, static_cast<std::int64_t>(random() % 20),
                                                static_cast<std::int64_t>(1 + random() % 1200));
    const SlotsPacking packing = draw_slots_packing(random, matrix.cols);
    const DataType type = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat16;
    const auto packed = pack_slots(matrix, packing, type);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    expect_unpacks_to(matrix, *packed);
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

// Where the order inside a tile is that of columns, the order of a row's tiles is chosen.
TEST(SlotsTest, OrderOfTilesSpreadsBanks) {
  Random random(5);
  const CsrMatrix matrix = draw_matrix(random, 16, 8192, 0.4);
  const SlotsPacking packing{SlotColumns::kDelta4, 16, 1, 1};
  const auto packed = pack_slots(matrix, packing, DataType::kFloat32);
  ASSERT_TRUE(packed.ok());
  const SlotTileSize size(packing, DataType::kFloat32);
  const std::byte* columns = packed->array("slots")->bytes.data() + slots::kLanes * size.values;
  double phases = 0;
  const auto groups = packed->facts.at("groups");
  for (std::int64_t group = 0; group < groups; ++group, columns += size.tile()) {
    std::vector<std::uint16_t> at(slots::kLanes);
    std::memcpy(at.data(), columns + slots::kLanes * size.columns, slots::kLanes * 2);
    for (int e = 0; e < 16; ++e) {
      std::vector<std::set<int>> words(32);  // of each bank
      for (int lane = 0; lane < slots::kLanes; ++lane) {
        at[lane] += static_cast<std::uint16_t>(read_step(packing.columns, columns, lane, e, size.columns));
        words[at[lane] % 32].insert(at[lane]);
      }
      phases += static_cast<double>(std::ranges::max(words, {}, &std::set<int>::size).size());
    }
  }
  EXPECT_LT(phases / static_cast<double>(groups * 16), 2.7) << "3.5 in random order";
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

// One row, with these columns and values 1, 2, ...
CsrMatrix row_of(std::int64_t cols, std::vector<std::uint32_t> columns) {
  CsrMatrix matrix;
  matrix.rows = 1;
  matrix.cols = cols;
  matrix.row_offsets = {0, std::ssize(columns)};
  matrix.column_indices = std::move(columns);
  for (std::int64_t i = 1; i <= std::ssize(matrix.column_indices); ++i) matrix.values.push_back(static_cast<float>(i));
  return matrix;
}

std::int64_t slots_of_row(const PackedWeight& packed) {
  return packed.array("rows")->as<slots::Row>().front().range >> 16;
}

TEST(SlotsTest, DistancesAtTheirLimitsAreExact) {
  using enum SlotColumns;
  const std::map<SlotColumns, std::uint32_t> reaches = {{kDelta8, 255}, {kDelta4, 225}, {kDelta6, 945}, {kDelta3, 248}};
  for (const auto& [columns, reach] : reaches) {
    for (const std::uint32_t gap :
         {1, 7, 8, 9, 14, 15, 16, 17, 30, 31, 62, 63, 64, 126, 127, 225, 226, 248, 249, 255, 256, 945, 946, 65535}) {
      for (const std::uint32_t first : {0U, 65535U - gap}) {
        const CsrMatrix matrix = row_of(65536, {first, first + gap});
        const auto packed = pack_slots(matrix, {columns, columns == kDelta3 ? 32 : 16, 1, 1}, DataType::kFloat16);
        ASSERT_TRUE(packed.ok()) << packed.status().to_string();
        expect_unpacks_to(matrix, *packed);
        EXPECT_EQ(slots_of_row(*packed), gap <= reach ? 1 : 2) << slot_columns_name(columns) << " " << gap;
      }
    }
  }
}

// Gaps of every size, which do not all end a tile: as many places as nonzeros and padding take, and no more.
TEST(SlotsTest, PaddingStandsBetweenDistantNonzeros) {
  const CsrMatrix matrix = row_of(100, {3, 18, 34, 35, 80});  // distances 15, 16, 1, 45
  const auto packed = pack_slots(matrix, {SlotColumns::kDelta4, 16, 1, 1}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(slots_of_row(*packed), 1);
  const std::byte* bytes = packed->array("slots")->bytes.data();
  const SlotTileSize size({SlotColumns::kDelta4, 16, 1, 1}, DataType::kFloat16);
  constexpr float kNone = -0.0F;
  constexpr float kValues[16] = {1,     2,     kNone, 3,     4,     kNone, kNone, 5,
                                 kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  constexpr std::uint32_t kSteps[16] = {0, 15, 15, 1, 1, 15, 15, 15};
  for (int e = 0; e < 16; ++e) {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes + interleaved_at(0, 2 * e, size.values), sizeof value);
    EXPECT_EQ(value, fp16_from_float(kValues[e])) << e;
    const std::byte* columns = bytes + slots::kLanes * size.values;
    EXPECT_EQ(read_step(SlotColumns::kDelta4, columns, 0, e, size.columns), kSteps[e]) << e;
  }
}

// Base and distances of a row of one tile with distances in 3 bits; which places have a weight.
void expect_narrow_tile(const CsrMatrix& matrix, int base, const std::vector<std::uint32_t>& steps,
                        const std::vector<int>& places) {
  const SlotsPacking packing{SlotColumns::kDelta3, 32, 1, 1};
  const auto packed = pack_slots(matrix, packing, DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(slots_of_row(*packed), 1);
  expect_unpacks_to(matrix, *packed);
  const std::byte* bytes = packed->array("slots")->bytes.data();
  const SlotTileSize size(packing, DataType::kFloat16);
  const std::byte* columns = bytes + slots::kLanes * size.values;
  std::uint16_t first = 0;
  std::memcpy(&first, columns + slots::kLanes * size.columns, sizeof first);
  EXPECT_EQ(first, base);
  std::vector<int> weights;
  for (int e = 0; e < 32; ++e) {
    const std::uint32_t step = e == 0 ? 0 : e < std::ssize(steps) ? steps[e] : 1;
    EXPECT_EQ(read_step(packing.columns, columns, 0, e, size.columns), step) << e;
    std::uint16_t value = 0;
    std::memcpy(&value, bytes + interleaved_at(0, 2 * e, size.values), sizeof value);
    if (value != 0x8000U) weights.push_back(e);
  }
  EXPECT_EQ(weights, places);
}

// Distances in 3 bits have no 0: what ends a tile goes on column by column, and begins it where a row would end.
TEST(SlotsTest, PaddingOfNarrowDistancesStaysInTheRow) {
  expect_narrow_tile(row_of(300, {3, 11, 20, 45}), 3, {0, 8, 8, 1, 8, 8, 8, 1}, {0, 1, 3, 7});
  expect_narrow_tile(row_of(300, {271}), 268, {}, {3});
  expect_narrow_tile(row_of(300, {268}), 268, {}, {0});
  expect_narrow_tile(row_of(300, {290, 299}), 261,
                     {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8, 1},
                     {29, 31});
}

// Tiles of 32 in a row without zeros begin in different banks.
TEST(SlotsTest, WideTilesOfAFullRowDoNotBeginInOneBank) {
  Random random(1);
  for (const SlotColumns columns : {SlotColumns::kDelta3, SlotColumns::kDelta4}) {
    const CsrMatrix matrix = draw_matrix(random, 1, 32 * 31, 1.0);
    const auto packed = pack_slots(matrix, {columns, 32, 1, 1}, DataType::kFloat16);
    ASSERT_TRUE(packed.ok());
    const SlotTileSize size({columns, 32, 1, 1}, DataType::kFloat16);
    std::vector<std::uint16_t> bases(slots::kLanes);
    std::memcpy(bases.data(), packed->array("slots")->bytes.data() + size.tile() - slots::kLanes * 2,
                slots::kLanes * 2);
    std::set<int> banks;
    for (const std::uint16_t base : bases) banks.insert(base / 2 % 32);
    EXPECT_GE(banks.size(), 16U) << slot_columns_name(columns);
    expect_unpacks_to(matrix, *packed);
  }
}

// A weight of -0 is stored as 0: padding is -0.
TEST(SlotsTest, AWeightOfMinusZeroIsNotTakenForPadding) {
  CsrMatrix matrix = row_of(100, {3, 50});
  matrix.values = {-0.0F, -1e-12F};
  matrix.cols = 256;
  for (const auto& [columns, width] :
       {std::pair{SlotColumns::kDelta4, 16}, {SlotColumns::kDelta6, 16}, {SlotColumns::kDelta3, 32}}) {
    const auto packed = pack_slots(matrix, {columns, width, 1, 1}, DataType::kFloat16);
    ASSERT_TRUE(packed.ok());
    const auto values = std::span(packed->array("slots")->bytes).first(64 * static_cast<std::size_t>(width));
    int minus = 0;
    for (std::size_t i = 1; i < values.size(); i += 2) minus += values[i] == std::byte{0x80} ? 1 : 0;
    EXPECT_EQ(minus, 32 * width - 2);
  }
}

bool is_in_bounds(const PackedWeight& packed) { return check_packed(packed, {}, PackedCheck::kBounds).ok(); }

// Kernels read x at the columns of padding too.
TEST(SlotsTest, StepsOutOfTheRowAreRefused) {
  for (const SlotColumns columns : {SlotColumns::kDelta4, SlotColumns::kDelta6}) {
    const SlotTileSize size({columns, 16, 1, 1}, DataType::kFloat16);
    const auto whole = pack_slots(row_of(20, {3, 15}), {columns, 16, 1, 1}, DataType::kFloat16);
    ASSERT_TRUE(whole.ok());
    const auto with_step = [&](int e, std::uint32_t step) {
      PackedWeight packed = *whole;
      write_step(columns, packed.arrays[0].bytes.data() + slots::kLanes * size.values, 0, e, size.columns, step);
      return packed;
    };
    EXPECT_TRUE(unpack(with_step(2, 0)).ok());
    EXPECT_TRUE(is_in_bounds(with_step(2, 4)));
    EXPECT_FALSE(unpack(with_step(2, 4)).ok()) << "distances behind the last nonzero are 0";
    EXPECT_FALSE(is_in_bounds(with_step(2, 5))) << "padding in column 20 of 20";
    EXPECT_FALSE(is_in_bounds(with_step(15, 15)));
    EXPECT_FALSE(unpack(with_step(0, 1)).ok());
    PackedWeight narrow = *whole;
    narrow.facts["vector_width"] = 4;
    EXPECT_EQ(unpack(narrow).status().code(), StatusCode::kInvalidInput);
  }
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
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kDelta4, 8}, DataType::kFloat16).ok());
  matrix.cols = 65536;
  EXPECT_TRUE(pack_slots(matrix, {SlotColumns::kDelta4, 8}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kDelta4, 4}, DataType::kFloat16).ok());
  EXPECT_TRUE(pack_slots(matrix, {SlotColumns::kDelta6, 16}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kDelta6, 8}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kDelta3, 16}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kOffset8, 32}, DataType::kFloat16).ok());
  matrix.cols = 256;
  EXPECT_TRUE(pack_slots(matrix, {SlotColumns::kDelta3, 32}, DataType::kFloat16).ok());
  matrix.cols = 255;
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kDelta3, 32}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kUint32, 5}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kUint32, 8, 3}, DataType::kFloat16).ok());
  EXPECT_FALSE(pack_slots(matrix, {SlotColumns::kUint32, 8, 1, 0}, DataType::kFloat16).ok());
}

// A tile that reaches column K where nonzeros with padding in between begin at column 0.
TEST(SlotsTest, NarrowDistancesReachTheLastColumn) {
  for (const std::uint32_t last : {223U, 224U, 248U, 255U}) {
    const CsrMatrix matrix = row_of(256, {0, last});
    const auto packed = pack_slots(matrix, {SlotColumns::kDelta3, 32, 1, 1}, DataType::kFloat16);
    ASSERT_TRUE(packed.ok());
    expect_unpacks_to(matrix, *packed);
  }
  const SlotsPacking packing{SlotColumns::kDelta3, 32, 1, 1};
  const SlotTileSize size(packing, DataType::kFloat16);
  auto packed = pack_slots(row_of(256, {8, 248}), packing, DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  std::byte* columns = packed->arrays[0].bytes.data() + slots::kLanes * size.values;
  write_step(packing.columns, columns, 0, 31, size.columns, 7);
  EXPECT_TRUE(is_in_bounds(*packed));
  write_step(packing.columns, columns, 0, 31, size.columns, 8);
  EXPECT_FALSE(is_in_bounds(*packed)) << "padding in column 256 of 256";
  packed->facts["vector_width"] = 16;
  EXPECT_EQ(unpack(*packed).status().code(), StatusCode::kInvalidInput);
}

TEST(SlotsTest, DamageIsRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(random, 2000, [&] {
    return pack_slots(draw_uneven_matrix(random, 5, 300), draw_slots_packing(random, 300), DataType::kFloat16);
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
    return !unpack(packed).ok();
  };
  EXPECT_FALSE(refused([](std::span<slots::Row>) {}));
  EXPECT_TRUE(refused([](std::span<slots::Row> rows) { rows[1].range = rows[0].range; }));
  EXPECT_TRUE(refused([](std::span<slots::Row> rows) { rows[1].row = rows[0].row; }));
  EXPECT_TRUE(refused([](std::span<slots::Row> rows) { rows[1].row = slots::kNoRow; }));
}

// An empty row with a slot of padding would be dealt as one with a nonzero is.
TEST(SlotsTest, ARowHasNoMoreSlotsThanItsNonzerosNeed) {
  CsrMatrix matrix;
  matrix.rows = 2;
  matrix.cols = 300;
  matrix.row_offsets = {0, 2, 2};
  matrix.column_indices = {3, 4};
  matrix.values = {1.0F, 2.0F};
  for (const SlotColumns columns : {SlotColumns::kUint16, SlotColumns::kUint32, SlotColumns::kDelta8,
                                    SlotColumns::kOffset8, SlotColumns::kDelta4}) {
    auto packed = pack_slots(matrix, {columns, 8, 1, 1}, DataType::kFloat16);
    ASSERT_TRUE(packed.ok());
    const std::span<slots::Row> rows = elements_of<slots::Row>(*packed, "rows");
    ASSERT_EQ(rows[1].row, 1U);
    ASSERT_EQ(rows[1].range, 1U);
    ASSERT_TRUE(unpack(*packed).ok());
    rows[1].range |= 1U << 16;
    EXPECT_EQ(unpack(*packed).status().code(), StatusCode::kInvalidInput) << slot_columns_name(columns);
  }
}

}  // namespace
}  // namespace sparsmith::test
