#include "generator/families/bitmap/bitmap_family.h"

#include <gtest/gtest.h>

#include "formats/bitmap_layout.h"
#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

TEST(BitmapFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const Family& family = bitmap_family();
  Random random(9);
  const CsrMatrix matrix = draw_matrix(random, 2300, 2000, 0.4);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const std::int64_t tokens : {1, 8, 16, 33, 64, 512}) {
    const Problem problem = problem_of(matrix, tokens);
    const SearchSpace space = search_space(family, problem, statistics);
    ASSERT_GT(space.configs.size(), 4U) << "N = " << tokens;
    for (const auto& predicted : space.configs)
      EXPECT_TRUE(family.check(predicted.config, problem, statistics).ok()) << predicted.config.text();
    expect_whole_candidate(family, space.configs.front(), problem, matrix, statistics);
  }
}

TEST(BitmapFamilyTest, ValuesOf32BitsAreRefused) {
  const Family& family = bitmap_family();
  Random random(9);
  const CsrMatrix matrix = draw_matrix(random, 64, 128, 0.5);
  Problem problem = problem_of(matrix, 8);
  problem.spec.type = DataType::kFloat32;
  EXPECT_TRUE(search_space(family, problem, compute_statistics(matrix)).configs.empty());
}

TEST(BitmapFamilyTest, RingsShrinkToWhatFits) {
  const DeviceProperties device = typical_device(90);
  const BitmapConfig config(Config{"bitmap",
                                   {{"tiles", 4},
                                    {"token_tiles", 1},
                                    {"warps", 16},
                                    {"stages", 3},
                                    {"run_bits", 8},
                                    {"stored_offsets", 0},
                                    {"bulk_copies", 1},
                                    {"blocks_per_sm", 1},
                                    {"column_parts", 1},
                                    {"sum", 0},
                                    {"input", 0}}});
  const std::int64_t full = bitmap::max_strip_bytes(4, 8, false);
  EXPECT_EQ(config.stages_that_fit(full, device), 1);
  EXPECT_EQ(config.stages_that_fit(4700, device), 3);
  EXPECT_EQ(config.stages_that_fit(16, device), 3);
  for (const std::int64_t strip : {std::int64_t{4700}, full}) {
    const int stages = config.stages_that_fit(strip, device);
    EXPECT_LE(config.shared_bytes(strip, stages), device.shared_bytes_per_block);
  }
  // Formulas of plans say the same.
  const StripSizes sizes = config.strip_sizes(device);
  for (const std::int64_t strip : {std::int64_t{0}, std::int64_t{16}, std::int64_t{4697}, std::int64_t{4700}, full}) {
    const Facts facts = {{"max_strip_bytes", strip}};
    const auto value = [&](const std::string& text) {
      return *IntegerExpression::of(text).evaluate({.facts = &facts});
    };
    const int stages = config.stages_that_fit(strip, device);
    EXPECT_EQ(value(sizes.slot_bytes), config.slot_bytes(strip));
    EXPECT_EQ(value(sizes.stages), stages);
    EXPECT_EQ(value(sizes.extras_offset), config.extras_offset(strip, stages));
    EXPECT_EQ(value(sizes.shared_bytes), config.shared_bytes(strip, stages));
  }
}

TEST(BitmapFamilyTest, PredictionsFollowBytesAndTokens) {
  const Family& family = bitmap_family();
  SparsityStatistics statistics;
  statistics.rows = statistics.cols = 8192;
  const auto best = [&](double sparsity, std::int64_t tokens) {
    statistics.sparsity = sparsity;
    statistics.nnz = static_cast<std::int64_t>((1 - sparsity) * 8192 * 8192);
    const Problem problem{{.rows = 8192, .cols = 8192, .type = DataType::kFloat16}, tokens, typical_device(90)};
    const SearchSpace space = search_space(family, problem, statistics);
    EXPECT_FALSE(space.configs.empty());
    return space.configs.front().predicted_us;
  };
  EXPECT_LT(best(0.7, 8), best(0.5, 8));
  EXPECT_LT(best(0.5, 8), best(0.5, 32));
  EXPECT_LT(best(0.7, 16), best(0.7, 64));
}

}  // namespace
}  // namespace sparsmith::test
