#include "formats/bitmap.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <set>

#include "base/half.h"
#include "formats/bitmap_layout.h"

namespace sparsmith {
namespace {

CsrMatrix draw(std::mt19937_64& random, std::int64_t rows, std::int64_t cols, std::uint64_t percent) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < cols; ++column) {
      if (random() % 100 >= percent) continue;
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(float_from_fp16(static_cast<std::uint16_t>(random() % 0x7C00)));
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

TEST(BitmapTest, EveryElementOfATileHasOnePlace) {
  std::set<std::pair<int, int>> seen;
  for (int lane = 0; lane < bitmap::kLanes; ++lane)
    for (int bit = 0; bit < 32; ++bit) seen.insert({bitmap::element_row(lane, bit), bitmap::element_column(lane, bit)});
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(bitmap::kTileElements));
  EXPECT_EQ(*seen.begin(), std::make_pair(0, 0));
  EXPECT_EQ(*seen.rbegin(), std::make_pair(bitmap::kTileRows - 1, bitmap::kStripColumns - 1));
}

TEST(BitmapTest, UnpackingGivesTheMatrixBack) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    const CsrMatrix matrix = draw(random, static_cast<std::int64_t>(random() % 150),
                                  static_cast<std::int64_t>(1 + random() % 200), random() % 3 * 50);
    const BitmapPacking packing{1 << random() % 3, random() % 2 == 0 ? 4 : 8, random() % 2 == 0};
    const auto packed = pack_bitmap(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    EXPECT_EQ(packed->packing, packing.name());
    EXPECT_LE(packed->facts.at("max_strip_bytes"),
              bitmap::max_strip_bytes(packing.tiles, packing.run_bits, packing.stored_offsets));
    const auto back = unpack_bitmap(*packed);
    ASSERT_TRUE(back.ok()) << packing.name() << back.status().to_string();
    EXPECT_EQ(back->row_offsets, matrix.row_offsets) << packing.name();
    EXPECT_EQ(back->column_indices, matrix.column_indices);
    EXPECT_EQ(back->values, matrix.values);
    const auto again = pack_bitmap(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(again.ok());
    for (std::size_t i = 0; i < packed->arrays.size(); ++i) EXPECT_EQ(packed->arrays[i].bytes, again->arrays[i].bytes);
  }
}

// What kernels rely on: a value's place follows from starts and firsts, or from counting bits.
TEST(BitmapTest, StoredOffsetsCountTheBitsBefore) {
  std::mt19937_64 random(11);
  const CsrMatrix matrix = draw(random, 64, 64, 60);
  for (const std::size_t run_bits : {4U, 8U}) {
    const auto packed = pack_bitmap(matrix, {4, static_cast<int>(run_bits), true}, DataType::kFloat16);
    ASSERT_TRUE(packed.ok());
    const std::size_t runs = 32 / run_bits;
    const std::size_t start_words = runs / 4;
    const std::byte* strip = packed->array("strips")->bytes.data();
    std::vector<std::uint32_t> words(4 * 32);
    std::vector<std::uint32_t> starts(4 * 32 * start_words);
    std::vector<std::uint16_t> firsts(4 * runs);
    std::memcpy(words.data(), strip, words.size() * 4);
    std::memcpy(starts.data(), strip + 512, starts.size() * 4);
    std::memcpy(firsts.data(), strip + 512 + starts.size() * 4, firsts.size() * 2);
    std::uint32_t count = 0;
    for (std::size_t tile = 0; tile < 4; ++tile) {
      for (std::size_t run = 0; run < runs; ++run) {
        EXPECT_EQ(firsts[tile * runs + run], 2 * count);
        for (std::size_t lane = 0; lane < 32; ++lane) {
          const std::uint32_t start = starts[(tile * 32 + lane) * start_words + run % start_words];
          EXPECT_EQ(firsts[tile * runs + run] / 2 + (start >> (8 * (run / start_words)) & 0xFFU), count);
          const std::uint32_t bits = words[tile * 32 + lane] >> (run_bits * run) & ((1U << run_bits) - 1);
          count += static_cast<std::uint32_t>(std::popcount(bits));
        }
      }
    }
    EXPECT_EQ(count, matrix.nnz());
  }
}

TEST(BitmapTest, ScannedOffsetsCostLittle) {
  std::mt19937_64 random(5);
  for (const std::uint64_t density : {50U, 30U, 10U}) {
    const CsrMatrix matrix = draw(random, 256, 2048, density);
    for (const int tiles : {2, 4}) {
      for (const int run_bits : {4, 8}) {
        if (density == 10 && run_bits == 4) continue;  // where a load meets few banks twice anyhow
        const auto packed = pack_bitmap(matrix, {tiles, run_bits, false}, DataType::kBFloat16);
        ASSERT_TRUE(packed.ok());
        const double floor = 2.0 * static_cast<double>(matrix.nnz()) + 256.0 * 2048 / 8;
        EXPECT_LE(static_cast<double>(packed->bytes()), (density == 10 ? 1.05 : 1.03) * floor)
            << packed->packing << ", " << density << " % nonzeros";
      }
    }
  }
}

TEST(BitmapTest, RefusesWhatItCannotHold) {
  std::mt19937_64 random(3);
  const CsrMatrix matrix = draw(random, 20, 70, 50);
  EXPECT_EQ(pack_bitmap(matrix, {}, DataType::kFloat32).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pack_bitmap(matrix, {3, 8, false}, DataType::kFloat16).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pack_bitmap(matrix, {2, 5, false}, DataType::kFloat16).status().code(), StatusCode::kInvalidArgument);
}

TEST(BitmapTest, UnpackingRefusesDamage) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const CsrMatrix matrix = draw(random, 40, 200, 50);
  const auto packed = pack_bitmap(matrix, {2, 8, true}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  PackedWeight cut = *packed;
  cut.arrays[0].bytes.resize(cut.arrays[0].bytes.size() - 16);
  EXPECT_FALSE(unpack_bitmap(cut).ok());
  PackedWeight renamed = *packed;
  renamed.packing = "bitmap_r3_b8_scanned";
  EXPECT_FALSE(unpack_bitmap(renamed).ok());
  for (int round = 0; round < 200; ++round) {  // any answer, no crash
    PackedWeight damaged = *packed;
    auto& bytes = damaged.arrays[random() % 2].bytes;
    bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    static_cast<void>(unpack_bitmap(damaged).ok());
  }
}

}  // namespace
}  // namespace sparsmith
