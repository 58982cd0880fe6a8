#include "formats/bitmap.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>

#include "formats/bitmap_layout.h"
#include "tests/support/packing_checks.h"

namespace sparsmith::test {
namespace {

BitmapPacking draw_packing(Random& random) { return {1 << random() % 3, random() % 2 == 0 ? 4 : 8, random() % 2 == 0}; }

// The matrix with nothing but nonzeros in one strip of its columns, in the first 64 rows.
CsrMatrix with_full_strip(const CsrMatrix& matrix, std::uint32_t strip) {
  CsrMatrix result;
  result.rows = matrix.rows;
  result.cols = matrix.cols;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    std::int64_t i = matrix.row_offsets[row];
    for (std::uint32_t column = 0; column < static_cast<std::uint32_t>(matrix.cols); ++column) {
      const bool stored = i < matrix.row_offsets[row + 1] && matrix.column_indices[i] == column;
      if (stored || (row < 64 && column / bitmap::kStripColumns == strip)) {
        result.column_indices.push_back(column);
        result.values.push_back(stored ? matrix.values[i] : 1.0F);
      }
      if (stored) ++i;
    }
    result.row_offsets.push_back(result.nnz());
  }
  return result;
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
  DrawnRandom random;
  for (int round = 0; round < 100; ++round) {
    const CsrMatrix matrix =
        draw_matrix(random, static_cast<std::int64_t>(random() % 150), static_cast<std::int64_t>(1 + random() % 200),
                    static_cast<double>(random() % 3) / 2);
    const BitmapPacking packing = draw_packing(random);
    const auto packed = pack_bitmap(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(packed.ok()) << packing.name() << packed.status().to_string();
    EXPECT_EQ(packed->packing, packing.name());
    EXPECT_LE(packed->facts.at("max_strip_bytes"),
              bitmap::max_strip_bytes(packing.tiles, packing.run_bits, packing.stored_offsets));
    expect_unpacks_to(matrix, *packed);
    const auto again = pack_bitmap(matrix, packing, DataType::kFloat16);
    ASSERT_TRUE(again.ok());
    expect_same_bytes(*packed, *again);
  }
}

// What kernels rely on: a value's place follows from starts and firsts, or from counting bits.
TEST(BitmapTest, StoredOffsetsCountTheBitsBefore) {
  Random random(11);
  const CsrMatrix matrix = draw_matrix(random, 64, 64, 0.6);
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

// Over bits and values: a few percent, and a constant a row tile for the room of its first strips.
TEST(BitmapTest, ScannedOffsetsCostLittle) {
  Random random(5);
  for (const double density : {0.5, 0.3, 0.1}) {
    const CsrMatrix matrix = draw_matrix(random, 256, 4096, density);
    for (const int tiles : {2, 4}) {
      for (const int run_bits : {4, 8}) {
        if (density == 0.1 && run_bits == 4) continue;  // where a load meets few banks twice anyhow
        const auto packed = pack_bitmap(matrix, {tiles, run_bits, false}, DataType::kBFloat16);
        ASSERT_TRUE(packed.ok());
        const double floor = 2.0 * static_cast<double>(matrix.nnz()) + 256.0 * 4096 / 8;
        const double constant = 2048.0 * static_cast<double>(packed->facts.at("row_tiles"));
        EXPECT_EQ(packed->facts.at("first_strips"), bitmap::kFirstStrips);
        EXPECT_LE(static_cast<double>(packed->bytes()), (density == 0.1 ? 1.05 : 1.03) * floor + constant)
            << packed->packing << ", " << density << " nonzeros";
      }
    }
  }
}

// A strip far larger than the others would have all of them take its room.
TEST(BitmapTest, FewerFirstStripsWhereOneIsFull) {
  Random random(5);
  CsrMatrix matrix = draw_matrix(random, 640, 64 * 20, 0.1);
  const auto packed_strips = [&matrix](int tiles) {
    const auto packed = pack_bitmap(matrix, {tiles, 8, false}, DataType::kFloat16);
    EXPECT_TRUE(packed.ok());
    expect_unpacks_to(matrix, *packed);
    return packed->facts.at("first_strips");
  };
  EXPECT_EQ(packed_strips(4), bitmap::kFirstStrips);
  matrix = with_full_strip(matrix, 9);
  EXPECT_EQ(packed_strips(4), 8);
  matrix = with_full_strip(matrix, 0);
  EXPECT_EQ(packed_strips(4), 4);
}

TEST(BitmapTest, RefusesWhatItCannotHold) {
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 20, 70, 0.5);
  EXPECT_EQ(pack_bitmap(matrix, {}, DataType::kFloat32).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pack_bitmap(matrix, {3, 8, false}, DataType::kFloat16).status().code(), StatusCode::kInvalidInput);
  EXPECT_EQ(pack_bitmap(matrix, {2, 5, false}, DataType::kFloat16).status().code(), StatusCode::kInvalidInput);
}

TEST(BitmapTest, RefusesAnotherLengthOrName) {
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 40, 200, 0.5);
  const auto packed = pack_bitmap(matrix, {2, 8, true}, DataType::kFloat16);
  ASSERT_TRUE(packed.ok());
  PackedWeight cut = *packed;
  cut.arrays[0].bytes.resize(cut.arrays[0].bytes.size() - 16);
  EXPECT_FALSE(unpack(cut).ok());
  PackedWeight renamed = *packed;
  for (const char* other : {"bitmap_r3_b8_scanned", "bitmap_r2_b5_stored", "bitmap_r2_stored"}) {
    renamed.packing = other;
    EXPECT_FALSE(unpack(renamed).ok()) << other;
  }
}

TEST(BitmapTest, DamageIsRefusedOrHarmless) {
  DrawnRandom random;
  expect_damage_is_refused_or_harmless(random, 1000, [&] {
    return pack_bitmap(draw_matrix(random, 40, 200, 0.5), draw_packing(random), DataType::kFloat16);
  });
}

}  // namespace
}  // namespace sparsmith::test
