#include "formats/two_four_pruning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "formats/packed_format.h"
#include "formats/two_four.h"
#include "formats/two_four_tiles_layout.h"
#include "tests/support/drawn_matrix.h"

namespace sparsmith {
namespace {

using test::DrawnRandom;

// All patterns, found by trying each subset of 16 bits.
std::set<unsigned> all_patterns() {
  std::set<unsigned> found;
  for (unsigned pattern = 0; pattern < 1U << 16; ++pattern) {
    bool legal = true;
    for (unsigned i = 0; i < 4; ++i)
      legal &= std::popcount(pattern & 0xFU << (4 * i)) == 2 && std::popcount(pattern & 0x1111U << i) == 2;
    if (legal) found.insert(pattern);
  }
  return found;
}

TEST(TwoFourPatternsTest, CodesNameAllPatterns) {
  const std::set<unsigned> all = all_patterns();
  EXPECT_EQ(all.size(), 90U);
  std::set<unsigned> named;
  for (int code = 0; code < two_four::kPatternCodes; ++code) named.insert(two_four::pattern_of(code));
  EXPECT_EQ(named, all);
}

double kept(const std::vector<float>& tile, unsigned pattern) {
  double sum = 0;
  for (std::size_t i = 0; i < 16; ++i) sum += (pattern >> i & 1U) != 0 ? std::fabs(tile[i]) : 0;
  return sum;
}

unsigned pattern_of(const CsrMatrix& pruned) {
  unsigned pattern = 0;
  for (std::int64_t row = 0; row < 4; ++row)
    for (std::int64_t i = pruned.row_offsets[row]; i < pruned.row_offsets[row + 1]; ++i)
      pattern |= 1U << (4 * row + pruned.column_indices[i]);
  return pattern;
}

// Against every pattern. Magnitudes of a tile count in units of 2^-17 of the power of two below the greatest.
TEST(PruneTwoFourTest, KeepsTheGreatestSum) {
  DrawnRandom random;
  std::normal_distribution<float> normal;
  const std::set<unsigned> all = all_patterns();
  for (int round = 0; round < 2000; ++round) {
    const float size = std::ldexp(1.0F, static_cast<int>(random() % 200) - 100);
    std::vector<float> tile(16);
    for (float& value : tile) value = size * (random() % 8 == 0 ? 0.0F : normal(random));
    const auto pruned = prune_two_four(tile, 4, 4);
    ASSERT_TRUE(pruned.ok()) << pruned.status().to_string();
    double best = 0;
    for (const unsigned pattern : all) best = std::max(best, kept(tile, pattern));
    const double greatest = std::fabs(*std::ranges::max_element(tile, {}, [](float each) { return std::fabs(each); }));
    EXPECT_GE(kept(tile, pattern_of(*pruned)), best - 8 * greatest * 0x1p-17);
  }
}

// Of normal weights: against pruning of rows alone, which keeps 2 of 4.
TEST(PruneTwoFourTest, KeepsMostOfWhatRowsAloneKeep) {
  DrawnRandom random;
  std::normal_distribution<float> normal;
  std::vector<float> weight(256 * 512);
  double all = 0;
  for (float& value : weight) all += std::fabs(value = normal(random));
  const auto pruned = prune_two_four(weight, 256, 512);
  ASSERT_TRUE(pruned.ok());
  double sum = 0;
  for (const float value : pruned->values) sum += std::fabs(value);
  EXPECT_GT(sum / all, 0.70);
  EXPECT_LT(sum / all, 0.77);
}

TEST(PruneTwoFourTest, PacksBothWays) {
  DrawnRandom random;
  std::vector<float> weight(68 * 132);
  for (float& value : weight) value = static_cast<float>(random() % 5) - 2;
  weight[3] = -0.0F;
  const auto pruned = prune_two_four(weight, 68, 132);
  ASSERT_TRUE(pruned.ok());
  ASSERT_TRUE(pruned->validate().ok()) << pruned->validate().to_string();
  EXPECT_EQ(pruned->nnz(), 68 * 132 / 2);
  for (const CsrMatrix& each : {*pruned, transposed(*pruned)}) {
    const auto packed = pack(kTwoFourPacking, each, DataType::kFloat16);
    EXPECT_TRUE(packed.ok()) << packed.status().to_string();
  }
}

TEST(PruneTwoFourTest, RefusesShapesWithoutTiles) {
  const std::vector<float> weight(64);
  for (const auto& [rows, cols] : {std::pair{6, 8}, {8, 6}, {0, 4}, {4, 0}})
    EXPECT_THAT(prune_two_four(weight, rows, cols).status().message(), testing::HasSubstr("multiples of 4"));
  EXPECT_THAT(prune_two_four(weight, 4, 4).status().message(), testing::HasSubstr("64 elements"));
}

TEST(PruneTwoFourTest, TakesWhatIsNotFinite) {
  for (const float strange : {INFINITY, -INFINITY, NAN}) {
    const std::vector<float> weight(16, strange);
    EXPECT_EQ(prune_two_four(weight, 4, 4)->nnz(), 8);
  }
}

}  // namespace
}  // namespace sparsmith
