#include "formats/panel.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/packing_checks.h"

namespace sparsmith::test {
namespace {

PanelPacking draw_packing(Random& random) {
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

TEST(PanelTest, UnpackingGivesTheMatrixBack) {
  DrawnRandom random;
  for (int round = 0; round < 200; ++round) {
    const CsrMatrix matrix = draw_uneven_matrix(random, static_cast<std::int64_t>(random() % 40),
                                                static_cast<std::int64_t>(1 + random() % 300));
    const PanelPacking packing = draw_packing(random);
    const DataType type = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat16;
    const auto packed = pack_panel(matrix, packing, type);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    EXPECT_LE(packed->facts.at("slots"), packing.max_slots);
    EXPECT_GE(packed->facts.at("phases_permille"), 1000);
    expect_unpacks_to(matrix, *packed, unpack_panel);
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
  Random random(5);
  const CsrMatrix matrix = draw_matrix(random, 512, 4096, 0.01);
  for (const int lanes : {1, 2, 4}) {
    const auto packed = pack_panel(matrix, {.row_parts = 2, .warps = 8, .segment_lanes = lanes, .segment_length = 64},
                                   DataType::kFloat16);
    ASSERT_TRUE(packed.ok());
    EXPECT_LT(packed->facts.at("phases_permille"), 1120) << lanes << " lanes a segment";
    EXPECT_LT(packed->facts.at("padding"), matrix.nnz() * 2 / 5) << lanes << " lanes a segment";
  }
}

TEST(PanelTest, RefusesWhatItCannotHold) {
  CsrMatrix wide;
  wide.cols = 70000;
  EXPECT_EQ(pack_panel(wide, {}, DataType::kFloat32).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 2}, DataType::kFloat32).ok());
  EXPECT_TRUE(pack_panel(wide, {.column_parts = 3}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 3, .segment_lanes = 3}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 3, .max_slots = 100}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 3}, DataType::kUint8).ok());
}

TEST(PanelTest, DamageIsRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(random, 2000, unpack_panel, [&] {
    return pack_panel(draw_uneven_matrix(random, 12, 60),
                      {.row_parts = 2, .warps = 2, .segment_length = 8, .max_slots = 400}, DataType::kFloat16);
  });
}

// Otherwise each of a file's parts could ask for all rows.
TEST(PanelTest, PartsFollowOneAnother) {
  Random random(3);
  const auto whole = pack_panel(draw_matrix(random, 40, 100, 0.5), {.row_parts = 4, .warps = 1}, DataType::kFloat16);
  ASSERT_TRUE(whole.ok());
  const auto refused = [&](const auto& damage_it) {
    PackedWeight packed = *whole;
    damage_it(packed);
    return !unpack_panel(packed).ok();
  };
  const auto nothing = [](PackedWeight&) {};
  EXPECT_FALSE(refused(nothing));
  EXPECT_TRUE(refused([](PackedWeight& packed) {
    const auto parts = elements_of<panel::Part>(packed, "parts");
    parts[1] = parts[0];
  }));
  EXPECT_TRUE(refused([](PackedWeight& packed) { ++elements_of<panel::Part>(packed, "parts")[0].slot_count; }));
}

}  // namespace
}  // namespace sparsmith::test
