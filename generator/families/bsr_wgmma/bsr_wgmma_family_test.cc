#include "generator/families/bsr_wgmma/bsr_wgmma_family.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

Config plain_config(std::int64_t token_tile = 256, std::int64_t row_tiles = 2) {
  return Config{"bsr_wgmma", {{"block_columns", 64}, {"token_tile", token_tile}, {"row_tiles", row_tiles}}};
}

TEST(BsrWgmmaFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const CsrMatrix matrix = draw_blocks(32, 0.9, 640, 1024);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const std::int64_t tokens : {8, 100, 2048}) {
    const Problem problem = problem_of(matrix, tokens);
    const SearchSpace space = search_space(bsr_wgmma_family(), problem, statistics);
    ASSERT_GE(space.configs.size(), 4U) << tokens;
    for (const PredictedConfig& config : space.configs)
      expect_whole_candidate(bsr_wgmma_family(), config, problem, matrix, statistics);
  }
}

TEST(BsrWgmmaFamilyTest, ARuleSaysWhatItForbids) {
  const SparsityStatistics statistics = compute_statistics(draw_blocks(64, 0.9, 1024, 1024));
  Problem problem = problem_of(1024, 1024, 512);
  const auto refusal = [&](const Problem& of) {
    return bsr_wgmma_family().check(plain_config(), of, statistics).message();
  };
  EXPECT_EQ(refusal(problem), "");
  EXPECT_NE(refusal(problem_of(1024, 1024, 512, DataType::kFloat32)).find("16-bit"), std::string::npos);
  Problem other = problem;
  other.spec.layout = Layout::kFeatureMajor;
  EXPECT_NE(refusal(other).find("tokens as lines"), std::string::npos);
  for (const int capability : {80, 89, 100, 120}) {
    problem.device = typical_device(capability);
    EXPECT_NE(refusal(problem).find("9.0"), std::string::npos) << capability;
    EXPECT_TRUE(search_space(bsr_wgmma_family(), problem, statistics).configs.empty()) << capability;
  }
}

// Blocks of 64 x 32 where they leave out some that blocks of 64 x 64 hold; no config where most blocks hold something.
TEST(BsrWgmmaFamilyTest, BlocksFollowThePattern) {
  const auto widths = [](const CsrMatrix& matrix) {
    std::set<std::int64_t> found;
    const SearchSpace space = search_space(bsr_wgmma_family(), problem_of(matrix, 512), compute_statistics(matrix));
    for (const PredictedConfig& each : space.configs) found.insert(each.config.at("block_columns"));
    return found;
  };
  EXPECT_EQ(widths(draw_blocks(64, 0.9, 1024, 1024)), (std::set<std::int64_t>{64}));
  EXPECT_EQ(widths(draw_blocks(32, 0.9, 1024, 1024)), (std::set<std::int64_t>{32, 64}));
  EXPECT_EQ(widths(draw_blocks(32, 0.75, 1024, 1024)), (std::set<std::int64_t>{32}));
  Random random(3);
  EXPECT_TRUE(widths(draw_matrix(random, 1024, 1024, 0.1)).empty());
}

// A block of threads for each multiprocessor, or for each output. X by its map, in boxes of the tokens of an output.
TEST(BsrWgmmaFamilyTest, ThePlanFillsTheDeviceOnce) {
  const CsrMatrix matrix = draw_blocks(64, 0.9, 1000, 512);
  const Problem problem = problem_of(matrix, 300);
  const auto packed = bsr_wgmma_family().pack(plain_config(), problem, matrix);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  const auto candidate = bsr_wgmma_family().generate(plain_config(), problem, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  ASSERT_EQ(candidate->plan.steps.size(), 1U);
  const PlanStep& step = candidate->plan.steps[0];
  const auto blocks = [&](std::int64_t n) { return step.grid[0].evaluate({.n = n, .facts = &packed->facts}).value(); };
  EXPECT_EQ(blocks(0), 0);
  EXPECT_EQ(blocks(1), 8);
  EXPECT_EQ(blocks(300), 16);
  EXPECT_EQ(blocks(100'000), 132);
  EXPECT_EQ(candidate->kernels[0].architecture, "sm_90a");
  const auto map = std::ranges::find(step.arguments, PlanArgument::Kind::kTensorMap, &PlanArgument::kind);
  ASSERT_NE(map, step.arguments.end());
  EXPECT_EQ(*map, tensor_map("x", 512, {256, 64}));
}

TEST(BsrWgmmaFamilyTest, PredictionsFollowBlocksAndTokens) {
  const auto best = [](int block, double sparsity, std::int64_t tokens) {
    const CsrMatrix matrix = draw_blocks(block, sparsity, 2048, 2048);
    const SearchSpace space = search_space(bsr_wgmma_family(), problem_of(matrix, tokens), compute_statistics(matrix));
    return space.configs.at(0).predicted_us;
  };
  EXPECT_LT(best(64, 0.9, 512), best(64, 0.75, 512));
  EXPECT_LT(best(64, 0.9, 512), best(64, 0.9, 4096));
  EXPECT_LT(best(64, 0.9, 4096), best(32, 0.9, 4096));
}

}  // namespace
}  // namespace sparsmith::test
