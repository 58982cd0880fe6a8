#include "generator/families/hybrids/hybrids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "formats/hybrid.h"
#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

using testing::StartsWith;

const Family* const kHybrids[] = {&bsr_wgmma_rest_family(), &bsr_strips_rest_family(), &two_four_wgmma_rest_family()};

CsrMatrix draw(const std::string& pattern, double sparsity) { return draw_pattern(pattern, sparsity, 640, 1024); }

// The families that a search would try, and the sizes of their blocks.
std::set<std::string> tried(const CsrMatrix& matrix, std::int64_t tokens = 512) {
  std::set<std::string> found;
  for (const Family* family : kHybrids) {
    for (const PredictedConfig& each :
         search_space(*family, problem_of(matrix, tokens), compute_statistics(matrix)).configs)
      found.insert(family->name + (each.config.values.contains("blocks")
                                       ? " " + std::to_string(each.config.at("blocks"))
                                       : std::string()));
  }
  return found;
}

TEST(HybridsTest, NearlyStructuredWeightsGetHybridsOfTheirStructureAlone) {
  using Names = std::set<std::string>;
  EXPECT_EQ(tried(draw("block:32+uniform:0.001", 0.9)), (Names{"bsr_wgmma_rest 32", "bsr_strips_rest 32"}));
  EXPECT_EQ(tried(draw("block:64+uniform:0.001", 0.9)), (Names{"bsr_wgmma_rest 64", "bsr_strips_rest 64"}));
  EXPECT_EQ(tried(draw("block:16+uniform:0.005", 0.9)), (Names{"bsr_wgmma_rest 16", "bsr_strips_rest 16"}));
  EXPECT_EQ(tried(draw("2:4+uniform:0.001", 0.5)), (Names{"two_four_wgmma_rest"}));
  for (const char* pattern : {"block:32", "2:4", "uniform"})
    EXPECT_EQ(tried(draw(pattern, pattern == std::string("2:4") ? 0.5 : 0.9)), Names{}) << pattern;
  EXPECT_EQ(tried(draw("block:32+uniform:0.02", 0.9)), Names{});  // a rest too large
}

TEST(HybridsTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  for (const CsrMatrix& matrix : {draw("block:32+uniform:0.001", 0.9), draw("2:4+uniform:0.001", 0.5)}) {
    const SparsityStatistics statistics = compute_statistics(matrix);
    int configs = 0;
    for (const std::int64_t tokens : {8, 100, 2048}) {
      const Problem problem = problem_of(matrix, tokens);
      for (const Family* family : kHybrids) {
        for (const PredictedConfig& config : search_space(*family, problem, statistics).configs) {
          expect_whole_candidate(*family, config, problem, matrix, statistics);
          ++configs;
        }
      }
    }
    EXPECT_GT(configs, 15);
  }
}

// The structured part's statistics are those of the weight without its rest, but for blocks that the rest touches by
// chance.
TEST(HybridsTest, StatisticsAreThoseOfTheStructuredPart) {
  for (const auto& [pattern, sparsity, block] :
       {std::tuple{"block:16+uniform:0.003", 0.9, 16}, std::tuple{"block:32+uniform:0.001", 0.75, 32},
        std::tuple{"block:64+uniform:0.001", 0.9, 64}, std::tuple{"2:4+uniform:0.002", 0.5, 0}}) {
    const CsrMatrix matrix = draw_pattern(pattern, sparsity, 1024, 2048);
    const HybridParts parts = split_hybrid(matrix, block);
    ASSERT_GT(parts.rest.nnz(), 0) << pattern;
    const SparsityStatistics whole = compute_statistics(parts.structured);
    const SparsityStatistics part = structured_statistics(compute_statistics(matrix), block);
    EXPECT_EQ(part.nnz, whole.nnz) << pattern;
    EXPECT_DOUBLE_EQ(part.sparsity, whole.sparsity) << pattern;
    EXPECT_EQ(part.two_four_legal == 1.0, block == 0) << pattern;
    EXPECT_EQ(part.groups[0] == whole.groups[0], block == 0) << pattern;
    for (std::size_t i = 0; block > 0 && i < part.block_touched.size(); ++i)
      EXPECT_NEAR(part.block_touched[i], whole.block_touched[i], 0.1 * whole.block_touched[i]) << pattern << " " << i;
  }
}

// The structured kernel leaves fp32 sums in the workspace; the epilogue is the last kernel's.
TEST(HybridsTest, ThePlanEndsWithTheRestAndTheEpilogue) {
  const CsrMatrix matrix = draw("block:32+uniform:0.001", 0.9);
  Problem problem = problem_of(matrix, 300);
  problem.spec.epilogue = *Epilogue::parse("bias+relu");
  const Config config{"bsr_wgmma_rest", {{"blocks", 32}, {"block_columns", 32}, {"token_tile", 128}, {"row_tiles", 1}}};
  const Family& family = bsr_wgmma_rest_family();
  const auto packed = family.pack(config, problem, matrix);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  EXPECT_EQ(packed->packing, "bsr_lines32_rest_b32_csr_u16_a4_natural");
  const auto candidate = family.generate(config, problem, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();
  const std::vector<PlanStep>& steps = candidate->plan.steps;
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].kernel, "bsr_wgmma_fp16_tm_none_c32_t128_r1_sums");
  EXPECT_THAT(steps[1].kernel, StartsWith("relayout"));
  EXPECT_EQ(steps[2].kernel, "bsr_wgmma_rest_fp16_tm_bias_relu_u16");
  for (const PlanStep& step : steps) {
    const bool stores = std::ranges::count(step.arguments, operand("y")) > 0;
    EXPECT_EQ(stores, &step == &steps.back()) << step.kernel;
  }
  const std::int64_t workspace = candidate->plan.workspace_bytes.evaluate({.n = 300, .facts = &packed->facts}).value();
  EXPECT_EQ(workspace, 1025 * 304 * 2 / 256 * 256 + 256 + 640 * 300 * 4);  // X turned, and the sums
}

TEST(HybridsTest, PredictionsFollowTheRest) {
  const auto best = [](const Family& family, const CsrMatrix& matrix) {
    const SearchSpace space = search_space(family, problem_of(matrix, 512), compute_statistics(matrix));
    return space.configs.at(0).predicted_us;
  };
  const CsrMatrix small = draw("block:32+uniform:0.0005", 0.9);
  const CsrMatrix large = draw("block:32+uniform:0.005", 0.9);
  EXPECT_LT(best(bsr_wgmma_rest_family(), small), best(bsr_wgmma_rest_family(), large));
  EXPECT_GT(best(bsr_wgmma_rest_family(), small), best(*family("bsr_wgmma"), draw("block:32", 0.9)));
}

}  // namespace
}  // namespace sparsmith::test
