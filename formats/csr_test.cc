#include "formats/csr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/half.h"
#include "formats/csr_layout.h"

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

TEST(CsrTest, UnpackingGivesTheMatrixBack) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const CsrMatrix matrix =
        draw(random, static_cast<std::int64_t>(random() % 20), static_cast<std::int64_t>(1 + random() % 300));
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
    const auto back = unpack_csr(*packed);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(back->row_offsets, matrix.row_offsets);
    EXPECT_EQ(back->column_indices, matrix.column_indices);
    EXPECT_EQ(back->values, matrix.values);  // all fp16 values: exact in either type
  }
}

TEST(CsrTest, SortedOrderPutsLongRowsFirst) {
  std::mt19937_64 random(7);
  const auto packed =
      pack_csr(draw(random, 50, 100), {.index_bytes = 2, .order = RowOrder::kSorted}, DataType::kFloat32);
  ASSERT_TRUE(packed.ok());
  const auto segments = packed->array("segments")->as<csr::Segment>();
  EXPECT_TRUE(std::is_sorted(segments.begin(), segments.end(), [](auto a, auto b) { return a.length > b.length; }));
}

TEST(CsrTest, NaturalOrderNeedsNoTargets) {
  std::mt19937_64 random(7);
  const auto packed = pack_csr(draw(random, 50, 100), {.index_bytes = 2}, DataType::kFloat32);
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

// A packed weight may come from a damaged file: any change is read back or refused, never out of bounds.
TEST(CsrTest, DamagedArraysAreRefusedOrReadSafely) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto whole =
      pack_csr(draw(random, 12, 60), {.index_bytes = 2, .split_length = 8, .partials = PartialSums::kTwoPass},
               DataType::kFloat16);
  ASSERT_TRUE(whole.ok());
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    PackedWeight damaged = *whole;
    PackedArray& array = damaged.arrays[random() % damaged.arrays.size()];
    if (random() % 4 == 0) array.bytes.resize(random() % (array.bytes.size() + 9));
    if (!array.bytes.empty()) array.bytes[random() % array.bytes.size()] = static_cast<std::byte>(random());
    if (!unpack_csr(damaged).ok()) ++refused;
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace sparsmith
