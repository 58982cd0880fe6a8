#include "generator/families/bsr_strips/bsr_strips_family.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

Config config_of(std::int64_t tiles, std::int64_t rows, std::int64_t token_tile, std::int64_t column_parts) {
  return Config{"bsr_strips",
                {{"tiles", tiles}, {"rows", rows}, {"token_tile", token_tile}, {"column_parts", column_parts}}};
}

TEST(BsrStripsFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const CsrMatrix matrix = draw_blocks(32, 0.9, 640, 1024);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const std::int64_t tokens : {8, 100, 2048}) {
    const Problem problem = problem_of(matrix, tokens);
    const SearchSpace space = search_space(bsr_strips_family(), problem, statistics);
    ASSERT_GE(space.configs.size(), 4U) << tokens;
    for (const PredictedConfig& config : space.configs)
      expect_whole_candidate(bsr_strips_family(), config, problem, matrix, statistics);
  }
}

TEST(BsrStripsFamilyTest, ARuleSaysWhatItForbids) {
  const SparsityStatistics statistics = compute_statistics(draw_blocks(16, 0.9, 1024, 1024));
  Problem problem = problem_of(1024, 1024, 512);
  const auto refusal = [&](const Config& config, const Problem& of) {
    return bsr_strips_family().check(config, of, statistics).message();
  };
  const Config plain = config_of(1, 256, 128, 1);
  EXPECT_EQ(refusal(plain, problem), "");
  EXPECT_NE(refusal(config_of(1, 256, 128, 2), problem).find("idle warps"), std::string::npos);
  EXPECT_NE(refusal(plain, problem_of(1024, 1024, 512, DataType::kFloat32)).find("16-bit"), std::string::npos);
  Problem other = problem;
  other.spec.layout = Layout::kFeatureMajor;
  EXPECT_NE(refusal(plain, other).find("tokens as lines"), std::string::npos);
  for (const int capability : {80, 89, 100, 120}) {
    problem.device = typical_device(capability);
    EXPECT_NE(refusal(plain, problem).find("9.0"), std::string::npos) << capability;
    EXPECT_TRUE(search_space(bsr_strips_family(), problem, statistics).configs.empty()) << capability;
  }
}

// Panels of 32 rows where their blocks are as high; no config where most columns of 16 rows hold something.
TEST(BsrStripsFamilyTest, PanelsFollowThePattern) {
  const auto tiles = [](const CsrMatrix& matrix) {
    std::set<std::int64_t> found;
    const SearchSpace space = search_space(bsr_strips_family(), problem_of(matrix, 512), compute_statistics(matrix));
    for (const PredictedConfig& each : space.configs) found.insert(each.config.at("tiles"));
    return found;
  };
  EXPECT_EQ(tiles(draw_blocks(8, 0.9, 1024, 1024)), (std::set<std::int64_t>{1}));
  EXPECT_EQ(tiles(draw_blocks(16, 0.9, 1024, 1024)), (std::set<std::int64_t>{1}));
  EXPECT_EQ(tiles(draw_blocks(32, 0.9, 1024, 1024)), (std::set<std::int64_t>{1, 2}));
  Random random(3);
  EXPECT_TRUE(tiles(draw_matrix(random, 1024, 1024, 0.1)).empty());
}

// A block of threads for each multiprocessor, or for each output and part of the columns.
TEST(BsrStripsFamilyTest, ThePlanFillsTheDeviceOnce) {
  const CsrMatrix matrix = draw_blocks(16, 0.9, 1000, 1024);
  const Problem problem = problem_of(matrix, 300);
  for (const int parts : {1, 2}) {
    const Config config = config_of(2, 128, 64, parts);
    const auto packed = bsr_strips_family().pack(config, problem, matrix);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto candidate = bsr_strips_family().generate(config, problem, *packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    ASSERT_EQ(candidate->plan.steps.size(), 1U);
    const PlanStep& step = candidate->plan.steps[0];
    const auto blocks = [&](std::int64_t n) {
      return step.grid[0].evaluate({.n = n, .facts = &packed->facts}).value();
    };
    EXPECT_EQ(blocks(0), 0);
    EXPECT_EQ(blocks(1), 8);
    EXPECT_EQ(blocks(300), 40);
    EXPECT_EQ(blocks(100'000), 132 / parts);
    EXPECT_EQ(step.grid[2].evaluate({.n = 300, .facts = &packed->facts}).value(), parts);
    EXPECT_EQ(step.cluster[2], parts);
    const auto map = std::ranges::find(step.arguments, PlanArgument::Kind::kTensorMap, &PlanArgument::kind);
    ASSERT_NE(map, step.arguments.end());
    EXPECT_EQ(*map, tensor_map("x", 1024, {.lines = 64}));
  }
}

TEST(BsrStripsFamilyTest, PredictionsFollowBlocksAndTokens) {
  const auto best = [](int block, double sparsity, std::int64_t tokens) {
    const CsrMatrix matrix = draw_blocks(block, sparsity, 2048, 2048);
    const SearchSpace space = search_space(bsr_strips_family(), problem_of(matrix, tokens), compute_statistics(matrix));
    return space.configs.at(0).predicted_us;
  };
  EXPECT_LT(best(16, 0.9, 512), best(16, 0.75, 512));
  EXPECT_LT(best(16, 0.9, 512), best(16, 0.9, 4096));
  EXPECT_LT(best(16, 0.9, 4096), best(8, 0.9, 4096));
}

}  // namespace
}  // namespace sparsmith::test
