#include "generator/families/cooperative/cooperative_family.h"

#include <gtest/gtest.h>

#include "generator/families/specialized/specialized_family.h"
#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

Config plain_config() {
  return Config{"cooperative",
                {{"entry", 0},
                 {"min_rounds", 28},
                 {"max_rounds", 28},
                 {"token_tile", 256},
                 {"stages", 4},
                 {"whole_tiles", 0},
                 {"column_parts", 1}}};
}

TEST(CooperativeFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  Random random(1);
  const CsrMatrix matrix = draw_matrix(random, 300, 1000, 0.2);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const std::int64_t tokens : {100, 300, 2048}) {
    const Problem problem = problem_of(matrix, tokens);
    const SearchSpace space = search_space(cooperative_family(), problem, statistics);
    ASSERT_GT(space.configs.size(), 3U) << tokens;
    for (const PredictedConfig& config : space.configs)
      expect_whole_candidate(cooperative_family(), config, problem, matrix, statistics);
  }
}

TEST(CooperativeFamilyTest, ARuleSaysWhatItForbids) {
  const SparsityStatistics statistics = uniform(8192, 8192, 0.2);
  Problem problem = problem_of(8192, 8192, 512);
  const Config config = plain_config();
  EXPECT_TRUE(cooperative_family().check(config, problem, statistics).ok());
  const auto refusal = [&](const Problem& of) { return cooperative_family().check(config, of, statistics).message(); };
  EXPECT_NE(refusal(problem_of(8192, 8192, 512, DataType::kFloat32)).find("16-bit"), std::string::npos);
  Problem other = problem;
  other.spec.layout = Layout::kFeatureMajor;
  EXPECT_NE(refusal(other).find("tokens as lines"), std::string::npos);
  Config large = config;
  large.values["stages"] = 6;
  EXPECT_NE(cooperative_family().check(large, problem, statistics).message().find("shared memory"), std::string::npos);
  for (const int capability : {80, 89, 100, 120}) {
    problem.device = typical_device(capability);
    EXPECT_NE(refusal(problem).find("9.0"), std::string::npos) << capability;
    EXPECT_EQ(search_space(cooperative_family(), problem, statistics).configs.size(), 0U) << capability;
  }
}

// Persistent blocks in clusters of two, and X by its map.
TEST(CooperativeFamilyTest, ThePlanFillsTheDeviceOnce) {
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 1000, 500, 0.2);
  const Problem problem = problem_of(matrix, 300);
  const auto packed = cooperative_family().pack(plain_config(), problem, matrix);
  ASSERT_TRUE(packed.ok());
  const auto candidate = cooperative_family().generate(plain_config(), problem, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  ASSERT_EQ(candidate->plan.steps.size(), 1U);
  const PlanStep& step = candidate->plan.steps[0];
  const auto blocks = [&](std::int64_t n) { return step.grid[0].evaluate({.n = n, .facts = &packed->facts}).value(); };
  EXPECT_EQ(blocks(0), 0);
  EXPECT_EQ(blocks(1), 2 * 4);
  EXPECT_EQ(blocks(300), 2 * 8);
  EXPECT_EQ(blocks(100'000), 132);
  EXPECT_EQ(step.cluster[0].evaluate({.n = 1}).value(), 2);
  EXPECT_EQ(candidate->kernels[0].architecture, "sm_90a");
  const auto map = std::ranges::find(step.arguments, PlanArgument::Kind::kTensorMap, &PlanArgument::kind);
  ASSERT_NE(map, step.arguments.end());
  EXPECT_EQ(*map, tensor_map("x", 500, {128, 64}));
}

// Two blocks an output, each with a part of the columns.
TEST(CooperativeFamilyTest, ThePlanSharesOutColumns) {
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 1000, 500, 0.2);
  const Problem problem = problem_of(matrix, 300);
  Config config = plain_config();
  config.values["column_parts"] = 2;
  const auto packed = cooperative_family().pack(config, problem, matrix);
  ASSERT_TRUE(packed.ok());
  const auto candidate = cooperative_family().generate(config, problem, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  const PlanStep& step = candidate->plan.steps.at(0);
  EXPECT_EQ(step.grid[0].evaluate({.n = 300, .facts = &packed->facts}).value(), 8 * 2);
  EXPECT_EQ(step.grid[2].evaluate({.n = 300}).value(), 2);
  EXPECT_EQ(step.cluster[0].evaluate({.n = 300}).value(), 1);
  EXPECT_EQ(step.cluster[2].evaluate({.n = 300}).value(), 2);
}

// One packed weight serves few tokens and many.
TEST(CooperativeFamilyTest, SharesThePackingOfSpecialized) {
  const Config few{"specialized",
                   {{"entry", 0},
                    {"min_rounds", 28},
                    {"max_rounds", 28},
                    {"token_tile", 32},
                    {"row_tiles", 2},
                    {"warpgroups", 2},
                    {"producers", 12},
                    {"tile_buffers", 1},
                    {"whole_tiles", 0},
                    {"stages", 8},
                    {"stage_columns", 64},
                    {"column_parts", 2}}};
  EXPECT_EQ(cooperative_family().packing(plain_config(), problem_of(8192, 8192, 2048)),
            specialized_family().packing(few, problem_of(8192, 8192, 32)));
}

TEST(CooperativeFamilyTest, SearchesManyTokens) {
  const auto found = [&](double density, std::int64_t tokens) {
    return search_space(cooperative_family(), problem_of(8192, 8192, tokens), uniform(8192, 8192, density))
        .configs.size();
  };
  for (const double density : {0.1, 0.2, 0.3, 0.5}) {
    EXPECT_GE(found(density, 2048), 2U) << density;
    EXPECT_LE(found(density, 2048), 40U) << density;
  }
  EXPECT_EQ(found(0.2, 64), 0U);
  EXPECT_EQ(found(0.005, 2048), 0U);
}

TEST(CooperativeFamilyTest, KernelTextDependsOnTheNameAlone) {
  expect_text_depends_on_name_alone(cooperative_family(), {{300, 504}, {600, 704}}, 0.2, 300);
}

}  // namespace
}  // namespace sparsmith::test
