#include "generator/families/sampled_wgmma/sampled_wgmma_family.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

Config plain_config(std::int64_t group_columns = 256, std::int64_t split = 0) {
  return Config{"sampled_wgmma",
                {{"tile_columns", 64}, {"row_tiles", 1}, {"group_columns", group_columns}, {"split", split}}};
}

TEST(SampledWgmmaFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const CsrMatrix matrix = draw_blocks(32, 0.9, 640, 1024);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const std::int64_t tokens : {64, 1000, 4096}) {
    const Problem problem = sddmm_of(matrix, tokens);
    const SearchSpace space = search_space(sampled_wgmma_family(), problem, statistics);
    ASSERT_GE(space.configs.size(), 4U) << tokens;
    for (const PredictedConfig& config : space.configs)
      expect_whole_candidate(sampled_wgmma_family(), config, problem, matrix, statistics);
  }
}

TEST(SampledWgmmaFamilyTest, ARuleSaysWhatItForbids) {
  const CsrMatrix matrix = draw_blocks(64, 0.9, 1024, 1024);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const Problem problem = sddmm_of(matrix, 512);
  const auto refusal = [&](const Problem& of, const Config& config) {
    return sampled_wgmma_family().check(config, of, statistics).message();
  };
  EXPECT_EQ(refusal(problem, plain_config()), "");
  Config wide = plain_config(512);
  EXPECT_EQ(refusal(problem, wide), "");
  wide.values["row_tiles"] = 2;
  EXPECT_NE(refusal(problem, wide).find("256 columns at most"), std::string::npos);
  Problem other = problem;
  other.spec.layout = Layout::kFeatureMajor;
  EXPECT_NE(refusal(other, plain_config()).find("tokens as lines"), std::string::npos);
  other = problem;
  other.device = typical_device(100);
  EXPECT_NE(refusal(other, plain_config()).find("9.0"), std::string::npos);
}

// Narrow tiles where they leave out some; pairs of rows of tiles where most tiles hold something.
TEST(SampledWgmmaFamilyTest, TilesFollowThePattern) {
  const auto found = [](const CsrMatrix& matrix) {
    std::set<std::pair<std::int64_t, std::int64_t>> all;
    const SearchSpace space = search_space(sampled_wgmma_family(), sddmm_of(matrix, 512), compute_statistics(matrix));
    for (const PredictedConfig& each : space.configs)
      all.emplace(each.config.at("tile_columns"), each.config.at("row_tiles"));
    return all;
  };
  using Tiles = std::set<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(found(draw_blocks(64, 0.9, 1024, 1024)), (Tiles{{64, 1}}));
  EXPECT_EQ(found(draw_blocks(32, 0.9, 1024, 1024)), (Tiles{{32, 1}, {64, 1}}));
  Random random(3);
  EXPECT_EQ(found(draw_matrix(random, 1024, 1024, 0.1)), (Tiles{{64, 1}, {64, 2}}));
}

// Where there are fewer groups than multiprocessors, tokens are shared out so that few idle; a second kernel adds up.
TEST(SampledWgmmaFamilyTest, PartsOfTheTokensFillTheDevice) {
  const CsrMatrix matrix = draw_blocks(64, 0.9, 1024, 1024);
  const Problem problem = sddmm_of(matrix, 4096);
  const auto plan_of = [&](const Config& config) {
    const auto packed = sampled_wgmma_family().pack(config, problem, matrix);
    EXPECT_TRUE(packed.ok()) << packed.status().to_string();
    const auto candidate = sampled_wgmma_family().generate(config, problem, *packed);
    EXPECT_TRUE(candidate.ok()) << candidate.status().to_string();
    const IntegerVariables variables{.n = 4096, .facts = &packed->facts};
    const std::int64_t parts = sampled_parts(SampledWgmmaConfig(config), problem, packed->facts);
    EXPECT_EQ(candidate->plan.steps[0].grid[0].evaluate(variables).value(),
              std::min<std::int64_t>(132, packed->facts.at("groups") * parts));
    EXPECT_EQ(candidate->plan.workspace_bytes.evaluate(variables).value(), parts == 1 ? 0 : parts * matrix.nnz() * 4);
    EXPECT_EQ(candidate->plan.steps.size(), parts == 1 ? 1U : 2U);
    EXPECT_EQ(candidate->kernels[0].architecture, "sm_90a");
    return parts;
  };
  EXPECT_EQ(plan_of(plain_config()), 1);
  EXPECT_GE(plan_of(plain_config(256, 1)), 3);
}

TEST(SampledWgmmaFamilyTest, PredictionsFollowTilesAndTokens) {
  const auto best = [](const CsrMatrix& matrix, std::int64_t tokens) {
    const SearchSpace space =
        search_space(sampled_wgmma_family(), sddmm_of(matrix, tokens), compute_statistics(matrix));
    return space.configs.at(0).predicted_us;
  };
  Random random(4);
  EXPECT_LT(best(draw_blocks(64, 0.9, 2048, 2048), 8192), best(draw_blocks(64, 0.75, 2048, 2048), 8192));
  EXPECT_LT(best(draw_blocks(64, 0.9, 2048, 2048), 2048), best(draw_blocks(64, 0.9, 2048, 2048), 8192));
  EXPECT_LT(best(draw_blocks(64, 0.9, 2048, 2048), 8192), best(draw_matrix(random, 2048, 2048, 0.1), 8192));
}

}  // namespace
}  // namespace sparsmith::test
