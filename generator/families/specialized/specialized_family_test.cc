#include "generator/families/specialized/specialized_family.h"

#include <gtest/gtest.h>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

Config plain_config() {
  return Config{"specialized",
                {{"entry", 0},
                 {"min_rounds", 16},
                 {"max_rounds", 16},
                 {"token_tile", 32},
                 {"row_tiles", 2},
                 {"warpgroups", 2},
                 {"producers", 12},
                 {"tile_buffers", 1},
                 {"whole_tiles", 0},
                 {"stages", 8},
                 {"stage_columns", 64},
                 {"column_parts", 2}}};
}

TEST(SpecializedFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  Random random(1);
  const CsrMatrix matrix = draw_matrix(random, 300, 1000, 0.2);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const Family& specialized = specialized_family();
  for (const std::int64_t tokens : {1, 8, 40, 64, 100}) {
    const Problem problem = problem_of(matrix, tokens);
    const SearchSpace space = search_space(specialized, problem, statistics);
    ASSERT_GT(space.configs.size(), 3U) << tokens;
    for (std::size_t i = 0; i < space.configs.size(); i += 17)
      expect_whole_candidate(specialized, space.configs[i], problem, matrix, statistics);
  }
}

TEST(SpecializedFamilyTest, ARuleSaysWhatItForbids) {
  const Family& specialized = specialized_family();
  const SparsityStatistics statistics = uniform(8192, 8192, 0.1);
  const Problem problem = problem_of(8192, 8192, 32);
  EXPECT_TRUE(specialized.check(plain_config(), problem, statistics).ok());
  const auto refusal = [&](const std::map<std::string, std::int64_t>& values) {
    Config config = plain_config();
    for (const auto& [parameter, value] : values) config.values[parameter] = value;
    return specialized.check(config, problem, statistics).message();
  };
  EXPECT_NE(refusal({{"min_rounds", 20}}).find("held in registers"), std::string::npos);
  EXPECT_NE(refusal({{"warpgroups", 1}}).find("every row tile has warpgroups"), std::string::npos);
  EXPECT_NE(refusal({{"stage_columns", 256}}).find("places for two stages' tiles"), std::string::npos);
  EXPECT_NE(refusal({{"producers", 20}, {"tile_buffers", 2}}).find("shared memory"), std::string::npos);
  EXPECT_NE(refusal({{"producers", 20}, {"min_rounds", 56}, {"max_rounds", 56}}).find("registers"), std::string::npos);
  const Problem singles = problem_of(8192, 8192, 64, DataType::kFloat32);
  EXPECT_NE(specialized.check(plain_config(), singles, statistics).message().find("16-bit"), std::string::npos);
}

// The instructions exist on 9.0 alone, before and after.
TEST(SpecializedFamilyTest, OnlyHopperIsOffered) {
  const Family& specialized = specialized_family();
  const SparsityStatistics statistics = uniform(8192, 8192, 0.1);
  Problem problem = problem_of(8192, 8192, 32);
  for (const int capability : {80, 86, 89, 100, 120}) {
    problem.device = typical_device(capability);
    problem.device.compute_capability = capability;
    EXPECT_NE(specialized.check(plain_config(), problem, statistics).message().find("9.0"), std::string::npos)
        << capability;
    EXPECT_EQ(search_space(specialized, problem, statistics).configs.size(), 0U) << capability;
  }
}

// Column parts are blocks of a cluster: one launch, nothing in the workspace.
TEST(SpecializedFamilyTest, AClusterAddsUpItsColumnParts) {
  const Family& specialized = specialized_family();
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 300, 1000, 0.2);
  const Problem problem = problem_of(matrix, 32);
  const auto packed = specialized.pack(plain_config(), problem, matrix);
  ASSERT_TRUE(packed.ok());
  const auto candidate = specialized.generate(plain_config(), problem, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  ASSERT_EQ(candidate->plan.steps.size(), 1U);
  const PlanStep& step = candidate->plan.steps[0];
  EXPECT_EQ(step.grid[0].evaluate({.n = 32, .facts = &packed->facts}).value(), 3);
  EXPECT_EQ(step.cluster[2].evaluate({.n = 32}).value(), 2);
  EXPECT_EQ(step.grid[2].evaluate({.n = 32}).value(), 2);
  EXPECT_EQ(candidate->plan.workspace_bytes.evaluate({.n = 32}).value(), 0);
  ASSERT_EQ(candidate->kernels.size(), 1U);
  EXPECT_EQ(candidate->kernels[0].architecture, "sm_90a");
  EXPECT_NE(candidate->kernels[0].source.find("-arch=sm_90a"), std::string::npos);
}

TEST(SpecializedFamilyTest, PacksColumnsInTheirOrder) {
  const Family& specialized = specialized_family();
  EXPECT_EQ(specialized.packing(plain_config(), problem_of(8192, 8192, 32)), "scatter_byte_64x64_natural_r16");
}

TEST(SpecializedFamilyTest, SearchesWhereItMayWin) {
  const Family& specialized = specialized_family();
  const auto found = [&](double density, std::int64_t tokens, std::int64_t rows = 8192) {
    return search_space(specialized, problem_of(rows, 8192, tokens), uniform(rows, 8192, density)).configs.size();
  };
  for (const std::int64_t tokens : {8, 16, 32, 64, 128}) {
    for (const double density : {0.1, 0.2, 0.3, 0.4}) {
      EXPECT_GE(found(density, tokens), 4U) << density << " " << tokens;
      EXPECT_LE(found(density, tokens), 400U) << density << " " << tokens;
    }
  }
  EXPECT_GE(found(0.2, 64, 28672), 4U);
  EXPECT_GE(found(0.2, 64, 1000), 4U);
  EXPECT_EQ(found(0.8, 64), 0U);
  EXPECT_EQ(found(0.005, 64), 0U);
  EXPECT_GE(found(0.2, 512), 4U) << "that dense is faster is for the cost model to say";
}

TEST(SpecializedFamilyTest, KernelTextDependsOnTheNameAlone) {
  expect_text_depends_on_name_alone(specialized_family(), {{300, 500}, {600, 700}}, 0.2, 48);
}

}  // namespace
}  // namespace sparsmith::test
