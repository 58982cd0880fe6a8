#include "generator/families/sampled_regions/sampled_regions_family.h"

#include <gtest/gtest.h>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

Config plain_config(std::int64_t tiles = 8) { return Config{"sampled_regions", {{"tiles", tiles}}}; }

SearchSpace space_of(const CsrMatrix& matrix, std::int64_t tokens) {
  return search_space(sampled_regions_family(), sddmm_of(matrix, tokens), compute_statistics(matrix));
}

TEST(SampledRegionsFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const CsrMatrix matrix = draw_blocks(32, 0.75, 1024, 1024);
  const SparsityStatistics statistics = compute_statistics(matrix);
  for (const std::int64_t tokens : {64, 1000, 4096}) {
    const Problem problem = sddmm_of(matrix, tokens);
    const SearchSpace space = space_of(matrix, tokens);
    ASSERT_GE(space.configs.size(), 4U) << tokens;
    for (const PredictedConfig& config : space.configs)
      expect_whole_candidate(sampled_regions_family(), config, problem, matrix, statistics);
  }
}

TEST(SampledRegionsFamilyTest, ARuleSaysWhatItForbids) {
  const CsrMatrix matrix = draw_blocks(32, 0.75, 1024, 1024);
  const SparsityStatistics statistics = compute_statistics(matrix);
  const Problem problem = sddmm_of(matrix, 512);
  const auto refusal = [&](const Problem& of) {
    return sampled_regions_family().check(plain_config(), of, statistics).message();
  };
  EXPECT_EQ(refusal(problem), "");
  Problem other = problem;
  other.spec.layout = Layout::kFeatureMajor;
  EXPECT_NE(refusal(other).find("tokens as lines"), std::string::npos);
  other = problem;
  other.device = typical_device(100);
  EXPECT_NE(refusal(other).find("9.0"), std::string::npos);
}

TEST(SampledRegionsFamilyTest, TilesFollowThePattern) {
  EXPECT_EQ(space_of(draw_blocks(32, 0.75, 4096, 4096), 4096).configs.at(0).config.at("tiles"), 10);
  EXPECT_EQ(space_of(draw_blocks(32, 0.9, 4096, 4096), 4096).configs.at(0).config.at("tiles"), 5);
}

// Whole clusters, no more than run at once.
TEST(SampledRegionsFamilyTest, LaunchesHaveWholeClusters) {
  const CsrMatrix matrix = draw_blocks(32, 0.75, 1024, 1024);
  for (const int sms : {1, 5, 132}) {
    Problem problem = sddmm_of(matrix, 512);
    problem.device.sm_count = sms;
    const auto packed = sampled_regions_family().pack(plain_config(), problem, matrix);
    ASSERT_TRUE(packed.ok()) << packed.status().to_string();
    const auto candidate = sampled_regions_family().generate(plain_config(), problem, *packed);
    ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
    const PlanStep& step = candidate->plan.steps.at(0);
    const IntegerVariables variables{.n = 512, .facts = &packed->facts};
    EXPECT_EQ(step.cluster[0].evaluate(variables).value(), 2);
    EXPECT_EQ(step.grid[0].evaluate(variables).value(),
              std::min<std::int64_t>(std::max(2, sms / 2 * 2), packed->facts.at("regions")));
    EXPECT_EQ(candidate->kernels[0].architecture, "sm_90a");
  }
}

TEST(SampledRegionsFamilyTest, PredictionsFollowTilesAndTokens) {
  const auto best = [](const CsrMatrix& matrix, std::int64_t tokens) {
    return space_of(matrix, tokens).configs.at(0).predicted_us;
  };
  EXPECT_LT(best(draw_blocks(32, 0.9, 4096, 4096), 8192), best(draw_blocks(32, 0.75, 4096, 4096), 8192));
  EXPECT_LT(best(draw_blocks(32, 0.75, 2048, 4096), 2048), best(draw_blocks(32, 0.75, 2048, 4096), 8192));
  EXPECT_LT(best(draw_blocks(32, 0.75, 4096, 4096), 4096), best(draw_blocks(32, 0.75, 14336, 4096), 4096));
}

}  // namespace
}  // namespace sparsmith::test
