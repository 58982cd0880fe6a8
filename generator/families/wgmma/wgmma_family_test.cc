#include "generator/families/wgmma/wgmma_family.h"

#include <gtest/gtest.h>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

Config plain_config() {
  return Config{"wgmma",
                {{"entry", 0},
                 {"min_rounds", 16},
                 {"max_rounds", 16},
                 {"row_tiles", 2},
                 {"warpgroups", 3},
                 {"whole_tiles", 0},
                 {"taken_tiles", 1},
                 {"column_parts", 2},
                 {"sum", 0},
                 {"tile_buffers", 1}}};
}

TEST(WgmmaFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  Random random(1);
  const CsrMatrix matrix = draw_matrix(random, 300, 1000, 0.2);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const Family& wgmma = wgmma_family();
  for (const std::int64_t tokens : {32, 40, 64, 100}) {
    const Problem problem = problem_of(matrix, tokens);
    const SearchSpace space = search_space(wgmma, problem, statistics);
    ASSERT_GT(space.configs.size(), 3U) << tokens;
    for (std::size_t i = 0; i < space.configs.size(); i += 5)
      expect_whole_candidate(wgmma, space.configs[i], problem, matrix, statistics);
  }
}

TEST(WgmmaFamilyTest, ARuleSaysWhatItForbids) {
  const Family& wgmma = wgmma_family();
  const SparsityStatistics statistics = uniform(8192, 8192, 0.1);
  Problem problem = problem_of(8192, 8192, 64);
  EXPECT_TRUE(wgmma.check(plain_config(), problem, statistics).ok());
  const auto refused = [&](const std::map<std::string, std::int64_t>& values) {
    Config config = plain_config();
    for (const auto& [parameter, value] : values) config.values[parameter] = value;
    return !wgmma.check(config, problem, statistics).ok();
  };
  EXPECT_TRUE(refused({{"min_rounds", 20}}));                   // beyond the held ones
  EXPECT_TRUE(refused({{"row_tiles", 4}, {"warpgroups", 4}}));  // 128 sums of a thread in 128 registers
  EXPECT_FALSE(refused({{"row_tiles", 4}, {"warpgroups", 2}}));
  const Problem singles = problem_of(8192, 8192, 64, DataType::kFloat32);
  EXPECT_NE(wgmma.check(plain_config(), singles, statistics).message().find("16-bit"), std::string::npos);
}

// The instructions exist on 9.0 alone, before and after.
TEST(WgmmaFamilyTest, OnlyHopperIsOffered) {
  const Family& wgmma = wgmma_family();
  const SparsityStatistics statistics = uniform(8192, 8192, 0.1);
  Problem problem = problem_of(8192, 8192, 64);
  for (const int capability : {80, 86, 89, 100, 120}) {
    problem.device = typical_device(capability);
    problem.device.compute_capability = capability;
    EXPECT_NE(wgmma.check(plain_config(), problem, statistics).message().find("9.0"), std::string::npos) << capability;
    EXPECT_EQ(search_space(wgmma, problem, statistics).configs.size(), 0U) << capability;
  }
  Random random(2);
  const CsrMatrix matrix = draw_matrix(random, 100, 200, 0.2);
  const Problem small = problem_of(matrix, 64);
  const auto packed = wgmma.pack(plain_config(), small, matrix);
  ASSERT_TRUE(packed.ok());
  const auto candidate = wgmma.generate(plain_config(), small, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  ASSERT_EQ(candidate->kernels.size(), 2U);
  EXPECT_EQ(candidate->kernels[0].architecture, "sm_90a");
  EXPECT_NE(candidate->kernels[0].source.find("-arch=sm_90a"), std::string::npos);
  EXPECT_EQ(candidate->kernels[1].architecture, "");
}

// Column parts of a cluster: one launch, nothing in the workspace.
TEST(WgmmaFamilyTest, AClusterAddsUpItsColumnParts) {
  const Family& wgmma = wgmma_family();
  Random random(3);
  const CsrMatrix matrix = draw_matrix(random, 300, 1000, 0.2);
  const Problem problem = problem_of(matrix, 64);
  const auto packed = wgmma.pack(plain_config(), problem, matrix);
  ASSERT_TRUE(packed.ok());
  Config config = plain_config();
  config.values["sum"] = 1;
  for (const std::int64_t blocks : {2, 4}) {
    config.values["column_parts"] = blocks;
    const auto candidate = wgmma.generate(config, problem, *packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    ASSERT_EQ(candidate->plan.steps.size(), 1U);
    const PlanStep& step = candidate->plan.steps[0];
    EXPECT_EQ(step.cluster[2].evaluate({.n = 64}).value(), blocks);
    EXPECT_EQ(step.grid[2].evaluate({.n = 64}).value(), blocks);
    EXPECT_EQ(candidate->plan.workspace_bytes.evaluate({.n = 64}).value(), 0);
  }
  for (const std::int64_t blocks : {1, 3, 6, 8}) {
    config.values["column_parts"] = blocks;
    EXPECT_NE(wgmma.check(config, problem, {}).message().find("two blocks or four"), std::string::npos) << blocks;
  }
}

// A weight that is tuned for few and for many tokens keeps one packed copy.
TEST(WgmmaFamilyTest, PacksAsTheScatterFamilyDoes) {
  const Family& wgmma = wgmma_family();
  EXPECT_EQ(wgmma.packing(plain_config(), problem_of(8192, 8192, 64)),
            (ScatterPacking{.entry = ScatterEntry::kByte, .tile_rows = 64, .min_rounds = 16}.name()));
}

TEST(WgmmaFamilyTest, SearchesWhereItMayWin) {
  const Family& wgmma = wgmma_family();
  const auto found = [&](double density, std::int64_t tokens, std::int64_t rows = 8192) {
    return search_space(wgmma, problem_of(rows, 8192, tokens), uniform(rows, 8192, density)).configs.size();
  };
  for (const std::int64_t tokens : {32, 64, 128}) {
    for (const double density : {0.1, 0.2, 0.3, 0.4}) {
      EXPECT_GE(found(density, tokens), 8U) << density << " " << tokens;
      EXPECT_LE(found(density, tokens), 400U) << density << " " << tokens;
    }
  }
  EXPECT_GE(found(0.2, 64, 28672), 8U);
  EXPECT_GE(found(0.2, 64, 1000), 8U);
  EXPECT_EQ(found(0.8, 64), 0U);
  EXPECT_EQ(found(0.005, 64), 0U);
  EXPECT_EQ(found(0.2, 8), 0U);
  EXPECT_GE(found(0.2, 512), 4U) << "that dense is faster is for the cost model to say";
}

TEST(WgmmaFamilyTest, KernelTextDependsOnTheNameAlone) {
  expect_text_depends_on_name_alone(wgmma_family(), {{300, 500}, {600, 700}}, 0.2, 48);
}

}  // namespace
}  // namespace sparsmith::test
