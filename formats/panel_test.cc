#include "formats/panel.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "formats/panel_words.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

PanelPacking draw_packing(Random& random) {
  PanelPacking packing;
  packing.row_parts = 1 + static_cast<int>(random() % 6);
  packing.column_parts = 1 + static_cast<int>(random() % 3);
  packing.warps = 1 << random() % 6;
  packing.segment_lanes = 1 << random() % 3;
  packing.segment_length = 1 + static_cast<int>(random() % 100);
  packing.turned = random() % 2 == 0;
  packing.row_store = static_cast<panel::RowStore>(random() % 4);
  packing.max_slots = least_slots(packing) + static_cast<int>(random() % 500);
  packing.order = static_cast<panel::LaneOrder>(random() % 3);
  return packing;
}

PanelPacking draw_gather(Random& random) {
  PanelPacking packing = draw_packing(random);
  packing.column_parts = 1;
  packing.row_store = panel::RowStore::kSlots;
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
  DrawnRandom random;
  for (int round = 0; round < 200; ++round) {
    const CsrMatrix matrix = draw_uneven_matrix(random, static_cast<std::int64_t>(random() % 40),
                                                static_cast<std::int64_t>(1 + random() % 300));
    const PanelPacking packing = round % 2 == 0 ? draw_packing(random) : draw_gather(random);
    const DataType type = random() % 2 == 0 && !packing.staged() ? DataType::kFloat32 : DataType::kFloat16;
    const auto packed = pack_panel(matrix, packing, type);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    EXPECT_LE(packed->facts.at("slots"), packing.max_slots);
    EXPECT_GE(packed->facts.at("phases_permille"), 1000);
    std::int64_t unread_steps = 0;
    for (const panel::Share& share : packed->array("shares")->as<panel::Share>())
      unread_steps += packed->facts.at("share_steps") - share.step_count;
    const std::int64_t step_bytes = panel::step_words(type, packing.token_lanes, matrix.cols).step() * 4;
    EXPECT_EQ(packed->read_bytes(), packed->bytes() - unread_steps * step_bytes);
    expect_unpacks_to(matrix, *packed);
  }
}

// Lanes and segments, and lanes and values, pair up one to one; the 8 lanes of a phase work on 8 segments.
TEST(PanelTest, LaneOrdersArePermutations) {
  for (const auto order : {panel::LaneOrder::kPlain, panel::LaneOrder::kTensor, panel::LaneOrder::kSparseTensor}) {
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
    const PanelPacking packing{
        .row_parts = 2, .warps = 8, .segment_lanes = lanes, .segment_length = 64, .turned = lanes == 2};
    const auto packed = pack_panel(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(packed.ok());
    EXPECT_LT(packed->facts.at("phases_permille"), 1150) << lanes << " lanes a segment";
    EXPECT_LT(packed->facts.at("padding"), matrix.nnz() / 4) << lanes << " lanes a segment";
  }
}

// Rows that nobody cuts take no slots, so that all of a weight may be one part.
TEST(PanelTest, WholeRowsTakeNoSlots) {
  Random random(6);
  const CsrMatrix matrix = draw_matrix(random, 3000, 512, 0.05);
  PanelPacking packing{.warps = 4, .segment_length = 64, .max_slots = 600, .row_store = panel::RowStore::kDirect};
  const auto whole = pack_panel(matrix, packing, DataType::kFloat16);
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  EXPECT_EQ(whole->facts.at("parts"), 1);
  EXPECT_LE(whole->facts.at("slots"), 2 * 4 * 32);
  expect_unpacks_to(matrix, *whole);
  packing.max_slots = 1100;
  packing.row_store = panel::RowStore::kStaged;
  const auto staged = pack_panel(matrix, packing, DataType::kFloat16);
  ASSERT_TRUE(staged.ok()) << staged.status().to_string();
  EXPECT_LE(staged->facts.at("slots") + staged->facts.at("rows") / 2, 1100);
  EXPECT_EQ(staged->facts.at("parts"), 2);
  expect_unpacks_to(matrix, *staged);
  packing.max_slots = 600;
  packing.row_store = panel::RowStore::kSlots;
  EXPECT_GE(pack_panel(matrix, packing, DataType::kFloat16)->facts.at("parts"), 6);
}

// A row has the same slots in every column part, as many as it has segments where these are most; nothing is cut.
TEST(PanelTest, SumsOfAllColumnPartsMeetInTheSameSlots) {
  Random random(8);
  const CsrMatrix matrix = draw_matrix(random, 300, 4096, 0.02);
  const PanelPacking packing{.row_parts = 2,
                             .column_parts = 4,
                             .warps = 4,
                             .segment_lanes = 2,
                             .segment_length = 32,
                             .row_store = panel::RowStore::kAdded};
  const auto packed = pack_panel(matrix, packing, DataType::kFloat32);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  EXPECT_EQ(packed->packing, "panel_r2_k4_w4_t2_l32_s2048_plain_turned_added");
  const auto parts = packed->array("parts")->as<panel::Part>();
  const auto slots = packed->array("row_slots")->as<std::uint16_t>();
  ASSERT_EQ(parts.size(), 8U);
  for (std::size_t i = 2; i < parts.size(); ++i) {
    const panel::Part& first = parts[i % 2];
    EXPECT_EQ(parts[i].slot_count, first.slot_count);
    for (std::uint32_t row = 0; row <= first.row_count; ++row)
      ASSERT_EQ(slots[parts[i].first_offset + row], slots[first.first_offset + row]);
  }
  EXPECT_LT(packed->facts.at("slots"), 160);  // 20 nonzeros a column part, seldom more than 32
  expect_unpacks_to(matrix, *packed);
}

// Columns beside values up to the last K that 15 bits can name, words beyond; fp32 has words anyway.
TEST(PanelTest, GathersNameAnyColumn) {
  for (const std::int64_t cols : {32767, 32768, 70000}) {
    CsrMatrix matrix;
    matrix.rows = 3;
    matrix.cols = cols;
    matrix.row_offsets = {0, 2, 2, 3};
    matrix.column_indices = {0, static_cast<std::uint32_t>(cols - 1), static_cast<std::uint32_t>(cols - 2)};
    matrix.values = {1.0F, -2.0F, 0.5F};
    for (const DataType type : {DataType::kFloat16, DataType::kFloat32}) {
      const PanelPacking packing{.warps = 2, .segment_lanes = 8, .token_lanes = 4};
      const auto packed = pack_panel(matrix, packing, type);
      ASSERT_TRUE(packed.ok()) << packed.status().to_string();
      EXPECT_EQ(packed->packing, "panel_r1_k1_w2_t8_l64_s2048_gather4");
      const auto back = unpack(*packed);
      ASSERT_TRUE(back.ok()) << back.status().to_string();
      EXPECT_EQ(back->column_indices, matrix.column_indices);
      EXPECT_EQ(back->values, matrix.values);
      // A step: 8 teams, 4 entries each, or 2.
      const bool wide = type == DataType::kFloat32 || cols > 32767;
      EXPECT_EQ(packed->facts.at("padding"), packed->facts.at("steps") * 8 * (wide ? 2 : 4) - 3);
    }
  }
}

// A team without work finds the column behind the last.
TEST(PanelTest, PaddingOfAGatherNamesNoColumn) {
  for (const std::int64_t cols : {100, 32767, 70000}) {
    CsrMatrix matrix;
    matrix.rows = 1;
    matrix.cols = cols;
    matrix.row_offsets = {0, 2};
    matrix.column_indices = {0, static_cast<std::uint32_t>(cols - 1)};
    matrix.values = {-0.0F, -1e-12F};
    for (const DataType type : {DataType::kFloat16, DataType::kFloat32}) {
      const auto packed = pack_panel(matrix, {.warps = 1, .token_lanes = 8}, type);
      ASSERT_TRUE(packed.ok()) << packed.status().to_string();
      const panel::StepWords words = panel::step_words(type, 8, cols);
      const auto entries = packed->array("entries")->as<std::uint32_t>();
      std::int64_t none = 0;
      for (std::int64_t step = 0; step < packed->facts.at("steps"); ++step)
        for (int lane = 0; lane < words.lanes; ++lane)
          for (int e = 0; e < words.entries(); ++e)
            none += words.column(entries.data() + step * words.step(), lane, e) == cols ? 1 : 0;
      EXPECT_EQ(none, packed->facts.at("padding"));
    }
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
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 3, .row_store = panel::RowStore::kStaged}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 3}, DataType::kUint8).ok());
  EXPECT_TRUE(pack_panel(wide, {.segment_lanes = 4, .token_lanes = 8}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.segment_lanes = 8, .token_lanes = 8}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.token_lanes = 3}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.token_lanes = 16}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.column_parts = 2, .token_lanes = 1}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_panel(wide, {.max_slots = 40000, .token_lanes = 1}, DataType::kFloat32).ok());
}

TEST(PanelTest, DamageIsRefusedOrHarmless) {
  DrawnRandom random;
  for (const int token_lanes : {0, 4}) {
    PanelPacking packing{.row_parts = 2, .warps = 2, .segment_length = 8, .max_slots = 400};
    packing.token_lanes = token_lanes;
    packing.sweep_columns = token_lanes > 0 ? 16 : 0;
    expect_damage_is_refused_or_harmless(random, 2000, [&] {
      if (token_lanes == 0) packing.row_store = static_cast<panel::RowStore>(random() % 4);
      packing.column_parts = packing.adds() ? 2 : 1;
      const DataType type = packing.staged() || random() % 2 == 0 ? DataType::kFloat16 : DataType::kFloat32;
      return pack_panel(draw_uneven_matrix(random, 12, 60), packing, type);
    });
  }
}

// Otherwise each of a file's parts could ask for all rows.
TEST(PanelTest, PartsFollowOneAnother) {
  Random random(3);
  const auto whole = pack_panel(draw_matrix(random, 40, 100, 0.5), {.row_parts = 4, .warps = 1}, DataType::kFloat16);
  ASSERT_TRUE(whole.ok());
  const auto refused = [&](const auto& damage_it) {
    PackedWeight packed = *whole;
    damage_it(packed);
    return !unpack(packed).ok();
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
