#include "formats/csr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "formats/csr_layout.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

TEST(CsrTest, UnpackingGivesTheMatrixBack) {
  DrawnRandom random;
  for (int round = 0; round < 300; ++round) {
    const CsrMatrix matrix = draw_uneven_matrix(random, static_cast<std::int64_t>(random() % 20),
                                                static_cast<std::int64_t>(1 + random() % 300));
    CsrPacking packing;
    packing.index_bytes = random() % 2 == 0 ? 2 : 4;
    packing.alignment = 1 << random() % 4;
    packing.order = static_cast<RowOrder>(random() % 3);
    if (random() % 2 == 0) {
      packing.split_length = packing.alignment * static_cast<std::int64_t>(1 + random() % 10);
      packing.partials = random() % 2 == 0 ? PartialSums::kAtomic : PartialSums::kTwoPass;
    }
    const DataType type = random() % 2 == 0 ? DataType::kFloat32 : DataType::kFloat16;
    const auto packed = pack_csr(matrix, packing, type);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    for (const csr::Segment segment : packed->array("segments")->as<csr::Segment>()) {
      EXPECT_EQ(segment.first % packing.alignment, 0U);
      if (packing.split_length > 0) {
        EXPECT_LE(segment.length, packing.split_length);
      }
    }
    expect_unpacks_to(matrix, *packed);
  }
}

TEST(CsrTest, SortedOrderPutsLongRowsFirst) {
  Random random(7);
  const auto packed =
      pack_csr(draw_uneven_matrix(random, 50, 100), {.index_bytes = 2, .order = RowOrder::kSorted}, DataType::kFloat32);
  ASSERT_TRUE(packed.ok());
  const auto segments = packed->array("segments")->as<csr::Segment>();
  EXPECT_TRUE(std::is_sorted(segments.begin(), segments.end(), [](auto a, auto b) { return a.length > b.length; }));
}

TEST(CsrTest, NaturalOrderNeedsNoTargets) {
  Random random(7);
  const auto packed = pack_csr(draw_uneven_matrix(random, 50, 100), {.index_bytes = 2}, DataType::kFloat32);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->array("targets"), nullptr);
  EXPECT_EQ(packed->facts.at("has_targets"), 0);
}

TEST(CsrTest, RefusesWhatItCannotHold) {
  CsrMatrix wide;
  wide.cols = 65537;
  EXPECT_EQ(pack_csr(wide, {.index_bytes = 2}, DataType::kFloat32).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(pack_csr(wide, {.index_bytes = 4}, DataType::kFloat32).ok());
  wide.cols = 65536;
  EXPECT_TRUE(pack_csr(wide, {.index_bytes = 2}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_csr(wide, {.alignment = 3}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_csr(wide, {.split_length = 16}, DataType::kFloat32).ok());
  EXPECT_FALSE(
      pack_csr(wide, {.alignment = 4, .split_length = 6, .partials = PartialSums::kAtomic}, DataType::kFloat32).ok());
  EXPECT_FALSE(pack_csr(wide, {}, DataType::kUint8).ok());
}

TEST(CsrTest, DamageIsRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(random, 2000, [&] {
    return pack_csr(draw_uneven_matrix(random, 12, 60),
                    {.index_bytes = 2, .split_length = 8, .partials = PartialSums::kTwoPass}, DataType::kFloat16);
  });
}

TEST(CsrTest, ARowThatWasCutHasPiecesAndNoMoreThanThereAre) {
  Random random(7);
  const CsrMatrix matrix = draw_matrix(random, 3, 100, 1.0);
  const auto whole = pack_csr(matrix, {.split_length = 32, .partials = PartialSums::kTwoPass}, DataType::kFloat16);
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  for (const std::uint32_t end : {0U, 13U, 0xFFFFFFFFU}) {  // slots of the first row, which has four
    PackedWeight packed = *whole;
    auto& bytes = std::ranges::find(packed.arrays, "slot_offsets", &PackedArray::name)->bytes;
    std::memcpy(bytes.data() + sizeof(end), &end, sizeof(end));
    const Result<CsrMatrix> back = unpack(packed);
    ASSERT_FALSE(back.ok()) << end;
    EXPECT_NE(back.status().message().find("segments, or where their sums go, are not as packers write them"),
              std::string::npos)
        << back.status().to_string();
  }
}

// A file of a megabyte would otherwise become a matrix of gigabytes.
TEST(CsrTest, SegmentsDoNotShareNonzeros) {
  Random random(3);
  auto packed = pack_csr(draw_matrix(random, 20, 100, 0.5), {}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  const auto segments = elements_of<csr::Segment>(*packed, "segments");
  const auto stored = static_cast<unsigned>(packed->array("columns")->size());
  for (csr::Segment& segment : segments) segment = {0, stored};
  EXPECT_EQ(unpack(*packed).status().code(), StatusCode::kInvalidInput);
}

}  // namespace
}  // namespace sparsmith::test
