#include "generator/families/two_four_wgmma/two_four_wgmma_family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "generator/families/two_four/two_four_family.h"
#include "tests/support/drawn_two_four.h"
#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

CsrMatrix drawn(std::int64_t rows, std::int64_t cols) {
  Random random(5);
  return draw_two_four(random, rows, cols, 1);
}

Config plain_config(std::int64_t token_tile = 256, std::int64_t row_tiles = 2, std::int64_t column_parts = 1,
                    std::int64_t sum = 0) {
  return Config{"two_four_wgmma",
                {{"token_tile", token_tile}, {"row_tiles", row_tiles}, {"column_parts", column_parts}, {"sum", sum}}};
}

TEST(TwoFourWgmmaFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const CsrMatrix matrix = drawn(640, 1024);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const std::int64_t tokens : {8, 100, 20'000}) {
    const Problem problem = problem_of(matrix, tokens);
    const SearchSpace space = search_space(two_four_wgmma_family(), problem, statistics);
    ASSERT_GE(space.configs.size(), 4U) << tokens;
    for (const PredictedConfig& config : space.configs)
      expect_whole_candidate(two_four_wgmma_family(), config, problem, matrix, statistics);
  }
}

TEST(TwoFourWgmmaFamilyTest, ARuleSaysWhatItForbids) {
  const SparsityStatistics statistics = compute_statistics(drawn(256, 256));
  Problem problem = problem_of(1024, 1024, 512);
  const auto refusal = [&](const Problem& of, const Config& config) {
    return two_four_wgmma_family().check(config, of, statistics).message();
  };
  EXPECT_EQ(refusal(problem, plain_config()), "");
  EXPECT_NE(refusal(problem, plain_config(256, 2, 2, 1)).find("idle warps"), std::string::npos);
  EXPECT_NE(refusal(problem_of(1024, 1024, 512, DataType::kFloat32), plain_config()).find("16-bit"), std::string::npos);
  Problem other = problem;
  other.spec.layout = Layout::kFeatureMajor;
  EXPECT_NE(refusal(other, plain_config()).find("tokens as lines"), std::string::npos);
  for (const int capability : {80, 89, 100, 120}) {
    problem.device = typical_device(capability);
    EXPECT_NE(refusal(problem, plain_config()).find("9.0"), std::string::npos) << capability;
    EXPECT_TRUE(search_space(two_four_wgmma_family(), problem, statistics).configs.empty()) << capability;
  }
  Random random(3);
  EXPECT_TRUE(search_space(two_four_wgmma_family(), problem_of(1024, 1024, 512),
                           compute_statistics(draw_matrix(random, 1024, 1024, 0.5)))
                  .configs.empty());
}

// One packed weight serves few tokens and many.
TEST(TwoFourWgmmaFamilyTest, TakesThePackingOfTwoFour) {
  const CsrMatrix matrix = drawn(1024, 1024);
  const Problem problem = problem_of(matrix, 512);
  const SearchSpace few = search_space(two_four_family(), problem_of(matrix, 8), compute_statistics(matrix));
  ASSERT_FALSE(few.configs.empty());
  EXPECT_EQ(two_four_wgmma_family().packing_of_rows(plain_config(), problem),
            two_four_family().packing_of_rows(few.configs[0].config, problem));
}

// A block of threads for each multiprocessor, or for each output; parts along the grid's z.
TEST(TwoFourWgmmaFamilyTest, ThePlanFillsTheDeviceOnce) {
  const CsrMatrix matrix = drawn(1000, 512);
  const Problem problem = problem_of(matrix, 300);
  const auto plan_of = [&](const Config& config) {
    const auto packed = two_four_wgmma_family().pack(config, problem, matrix);
    EXPECT_TRUE(packed.ok()) << packed.status().to_string();
    const auto candidate = two_four_wgmma_family().generate(config, problem, *packed);
    EXPECT_TRUE(candidate.ok()) << candidate.status().to_string();
    EXPECT_EQ(candidate->plan.steps.size(), TwoFourWgmmaConfig(config).second_kernel() ? 2U : 1U);
    EXPECT_EQ(candidate->kernels[0].architecture, "sm_90a");
    return std::pair(candidate->plan.steps[0], packed->facts);
  };
  const auto blocks = [&](const Config& config, std::int64_t n) {
    const auto [step, facts] = plan_of(config);
    return step.grid[0].evaluate({.n = n, .facts = &facts}).value();
  };
  EXPECT_EQ(blocks(plain_config(), 0), 0);
  EXPECT_EQ(blocks(plain_config(), 1), 8);
  EXPECT_EQ(blocks(plain_config(), 300), 16);
  EXPECT_EQ(blocks(plain_config(), 100'000), 132);
  EXPECT_EQ(blocks(plain_config(64, 1, 2, 1), 64), 16);
  const PlanStep parts = plan_of(plain_config(64, 1, 2, 1)).first;
  EXPECT_EQ(parts.cluster[2].evaluate({}).value(), 2);
  EXPECT_EQ(parts.grid[2].evaluate({}).value(), 2);
  const PlanStep split = plan_of(plain_config(256, 2, 2, 0)).first;
  EXPECT_EQ(split.cluster[2].evaluate({}).value(), 1);
  EXPECT_EQ(split.grid[2].evaluate({}).value(), 2);
  const auto map = std::ranges::find(parts.arguments, PlanArgument::Kind::kTensorMap, &PlanArgument::kind);
  ASSERT_NE(map, parts.arguments.end());
  EXPECT_EQ(*map, tensor_map("x", 512, {64, 64}));
}

TEST(TwoFourWgmmaFamilyTest, ThePredictionChoosesAsMeasured) {
  const auto best = [](std::int64_t rows, std::int64_t cols, std::int64_t tokens) {
    const CsrMatrix matrix = drawn(256, 256);
    Problem problem = problem_of(rows, cols, tokens);
    const SearchSpace space = search_space(two_four_wgmma_family(), problem, compute_statistics(matrix));
    return space.configs.at(0);
  };
  EXPECT_EQ(best(8192, 8192, 64).config.at("token_tile"), 64);
  EXPECT_EQ(best(8192, 8192, 128).config.at("row_tiles"), 1);
  EXPECT_EQ(best(8192, 8192, 512).config.at("token_tile"), 256);
  EXPECT_EQ(best(4096, 4096, 512).config.at("token_tile"), 128);
  EXPECT_GT(best(1024, 8192, 64).config.at("column_parts"), 1);
  EXPECT_LT(best(8192, 8192, 512).predicted_us, best(8192, 8192, 4096).predicted_us);
}

}  // namespace
}  // namespace sparsmith::test
