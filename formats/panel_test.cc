#include "formats/panel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/half.h"

namespace sparsmith {
namespace {

// Rows of very different lengths: empty, full, and in between.
CsrMatrix draw(std::mt19937_64& random, std::int64_t rows, std::int64_t cols) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint64_t density = random() % 5 == 0 ? 100 : random() % 40;
    for (std::int64_t column = 0; column < cols; ++column) {
      if (random() % 100 >= density) continue;
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(float_from_fp16(static_cast<std::uint16_t>(1 + random() % 0x7BFE)));
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

PanelPacking draw_packing(std::mt19937_64& random) {
  PanelPacking packing;
  packing.row_parts = 1 + static_cast<int>(random() % 6);
  packing.column_parts = 1 + static_cast<int>(random() % 3);
  packing.warps = 1 << random() % 6;
  packing.segment_lanes = 1 << random() % 3;
  packing.segment_length = 1 + static_cast<int>(random() % 100);
  packing.max_slots = least_slots(packing) + static_cast<int>(random() % 500);
  packing.order = random() % 2 == 0 ? panel::LaneOrder::kPlain : panel::LaneOrder::kTensor;
  return packing;
}

PanelPacking draw_gather(std::mt19937_64& random) {
  PanelPacking packing = draw_packing(random);
  packing.column_parts = 1;
  packing.order = panel::LaneOrder::kPlain;
  packing.token_lanes = 1 << random() % 4;
  do {
    packing.segment_lanes = 1 << random() % 6;
  } while (packing.segment_lanes > packing.lanes());
  packing.max_slots = least_slots(packing) + static_cast<int>(random() % 500);
  if (random() % 2 == 0) packing.sweep_columns = 1 + static_cast<int>(random() % 100);
  return packing;
}

TEST(PanelTest, UnpackingGivesTheMatrixBack) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const CsrMatrix matrix =
        draw(random, static_cast<std::int64_t>(random() % 40), static_cast<std::int64_t>(1 + random() % 300));
    const PanelPacking packing = round % 2 == 0 ? draw_packing(random) : draw_gather(random);
    const DataType type = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat16;
    const auto packed = pack_panel(matrix, packing, type);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    EXPECT_LE(packed->facts.at("slots"), packing.max_slots);
    EXPECT_GE(packed->facts.at("phases_permille"), 1000);
    const auto back = unpack_panel(*packed);
    ASSERT_TRUE(back.ok()) << packing.name() << back.status().to_string();
    EXPECT_EQ(back->row_offsets, matrix.row_offsets) << packing.name();
    EXPECT_EQ(back->column_indices, matrix.column_indices);
    EXPECT_EQ(back->values, matrix.values);  // all fp16 values: exact in either type
  }
}

// Lanes and segments, and lanes and values, pair up one to one; the 8 lanes of a phase work on 8 segments.
TEST(PanelTest, LaneOrdersArePermutations) {
  for (const auto order : {panel::LaneOrder::kPlain, panel::LaneOrder::kTensor}) {
    std::vector<int> holders(32, 0);
    for (int lane = 0; lane < 32; ++lane) ++holders[static_cast<std::size_t>(panel::value_lane(order, lane))];
    EXPECT_TRUE(std::all_of(holders.begin(), holders.end(), [](int count) { return count == 1; }));
    for (const int segments : {8, 16, 32}) {
      std::vector<int> lanes(static_cast<std::size_t>(segments), 0);
      for (int lane = 0; lane < 32; ++lane) {
        ++lanes[static_cast<std::size_t>(panel::segment_of_lane(order, segments, lane))];
        for (int other = lane / 8 * 8; other < lane; ++other)
          EXPECT_NE(panel::segment_of_lane(order, segments, lane), panel::segment_of_lane(order, segments, other));
      }
      EXPECT_TRUE(std::all_of(lanes.begin(), lanes.end(), [&](int count) { return count == 32 / segments; }));
    }
  }
}

// The point of the schedule: drawn columns would meet in 2.5 phases.
TEST(PanelTest, GathersAreNearlyFreeOfConflicts) {
  std::mt19937_64 random(5);
  CsrMatrix matrix;
  matrix.rows = 512;
  matrix.cols = 4096;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t column = 0; column < matrix.cols; ++column) {
      if (random() % 100 != 0) continue;
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(1.0F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  for (const int lanes : {1, 2, 4}) {
    const auto packed = pack_panel(matrix, {.row_parts = 2, .warps = 8, .segment_lanes = lanes, .segment_length = 64},
                                   DataType::kFloat16);
    ASSERT_TRUE(packed.ok());
    EXPECT_LT(packed->facts.at("phases_permille"), 1120) << lanes << " lanes a segment";
    EXPECT_LT(packed->facts.at("padding"), matrix.nnz() * 2 / 5) << lanes << " lanes a segment";
  }
}

// Columns beside values up to the last K that 15 bits can name, words beyond; fp32 has words anyway.
TEST(PanelTest, GathersNameAnyColumn) {
  for (const std::int64_t cols : {32768, 32769, 70000}) {
    CsrMatrix matrix;
    matrix.rows = 3;
    matrix.cols = cols;
    matrix.row_offsets = {0, 2, 2, 3};
    matrix.column_indices = {0, static_cast<std::uint32_t>(cols - 1), static_cast<std::uint32_t>(cols - 2)};
    matrix.values = {-0.0F, -2.0F, 0.5F};  // -0 comes back as 0, which is equal
    for (const DataType type : {DataType::kFloat16, DataType::kFloat32}) {
      const PanelPacking packing{.warps = 2, .segment_lanes = 8, .token_lanes = 4};
      const auto packed = pack_panel(matrix, packing, type);
      ASSERT_TRUE(packed.ok()) << packed.status().to_string();
      EXPECT_EQ(packed->packing, "panel_r1_k1_w2_t8_l64_s2048_gather4");
      const auto back = unpack_panel(*packed);
      ASSERT_TRUE(back.ok()) << back.status().to_string();
      EXPECT_EQ(back->column_indices, matrix.column_indices);
      EXPECT_EQ(back->values, matrix.values);
      // A step: 8 teams, 4 entries each, or 2.
      const bool wide = type == DataType::kFloat32 || cols > 32768;
      EXPECT_EQ(packed->facts.at("padding"), packed->facts.at("steps") * 8 * (wide ? 2 : 4) - 3);
    }
  }
}

TEST(PanelTest, RefusesWhatItCannotHold) {
  CsrMatrix wide;
  wide.cols = 70000;
  EXPECT_EQ(pack_panel(wide, {}, DataType::kFloat32).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(pack_panel(wide, {.column_parts = 3}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 3, .segment_lanes = 3}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 3, .max_slots = 100}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 3}, DataType::kUint8).ok());
  EXPECT_TRUE(pack_panel(wide, {.segment_lanes = 4, .token_lanes = 8}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.segment_lanes = 8, .token_lanes = 8}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.token_lanes = 3}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.token_lanes = 16}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 2, .token_lanes = 1}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.max_slots = 40000, .token_lanes = 1}, DataType::kFloat32).ok());
}

// A packed weight may come from a damaged file: any change is read back or refused, never out of bounds.
TEST(PanelTest, DamagedArraysAreRefusedOrReadSafely) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const CsrMatrix matrix = draw(random, 12, 60);
  PanelPacking packing{.row_parts = 2, .warps = 2, .segment_length = 8, .max_slots = 400};
  const auto panel = pack_panel(matrix, packing, DataType::kFloat16);
  packing.token_lanes = 4;
  packing.sweep_columns = 16;
  const auto gather = pack_panel(matrix, packing, DataType::kFloat16);
  ASSERT_TRUE(panel.ok() && gather.ok());
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    PackedWeight damaged = round % 2 == 0 ? *panel : *gather;
    PackedArray& array = damaged.arrays[random() % damaged.arrays.size()];
    if (random() % 4 == 0) array.bytes.resize(random() % (array.bytes.size() + 9));
    if (!array.bytes.empty()) array.bytes[random() % array.bytes.size()] = static_cast<std::byte>(random());
    if (random() % 8 == 0) {
      const auto fact = std::next(damaged.facts.begin(), static_cast<std::int64_t>(random() % damaged.facts.size()));
      fact->second = static_cast<std::int64_t>(random() % 100);
    }
    if (!unpack_panel(damaged).ok()) ++refused;
  }
  EXPECT_GT(refused, 400);
}

}  // namespace
}  // namespace sparsmith
