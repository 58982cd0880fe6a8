#include "generator/families/two_four/two_four_family.h"

#include <gtest/gtest.h>

#include "tests/support/drawn_two_four.h"
#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

TEST(TwoFourFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const Family& family = two_four_family();
  Random random(9);
  for (const auto& [rows, cols] : {std::pair{1000, 4000}, std::pair{1100, 2048}}) {
    const CsrMatrix matrix = draw_two_four(random, rows, cols, 0.95);
    const SparsityStatistics statistics = compute_statistics(matrix);
    for (const std::int64_t tokens : {1, 8, 33, 128}) {
      const Problem problem = problem_of(matrix, tokens);
      const SearchSpace space = search_space(family, problem, statistics);
      ASSERT_GT(space.configs.size(), 2U) << rows << " rows, N = " << tokens;
      for (std::size_t i = 0; i < space.configs.size(); i += 3)
        expect_whole_candidate(family, space.configs[i], problem, matrix, statistics);
    }
  }
}

TEST(TwoFourFamilyTest, OnlyWeightsWithTwoNonzerosInFourAreServed) {
  const Family& family = two_four_family();
  Random random(9);
  CsrMatrix matrix = draw_two_four(random, 64, 256, 1.0);
  const auto cuts = [&] { return search_space(family, problem_of(matrix, 8), compute_statistics(matrix)).cuts; };
  EXPECT_FALSE(cuts().contains("two_four: a group of four columns has more than two nonzeros"));
  matrix = draw_matrix(random, 64, 256, 0.5);
  EXPECT_TRUE(cuts().contains("two_four: a group of four columns has more than two nonzeros"));
  EXPECT_TRUE(search_space(family, problem_of(matrix, 8), compute_statistics(matrix)).configs.empty());
}

TEST(TwoFourFamilyTest, DevicesAndTypesThatHaveNoSparseTensorCoresAreRefused) {
  const Family& family = two_four_family();
  SparsityStatistics statistics;
  statistics.sparsity = 0.5;
  statistics.two_four_legal = 1;
  Problem problem = problem_of(4096, 4096, 8);
  const auto entries = [&] { return search_space(family, problem, statistics).configs; };
  ASSERT_FALSE(entries().empty());
  problem.spec.type = DataType::kFloat32;
  EXPECT_TRUE(entries().empty());
  problem.spec.type = DataType::kBFloat16;
  problem.device = typical_device(80);
  ASSERT_FALSE(entries().empty());
  for (const auto& predicted : entries()) {
    EXPECT_EQ(predicted.config.at("bulk_copies"), 0);
    EXPECT_EQ(predicted.config.at("sum"), 0);
  }
}

TEST(TwoFourFamilyTest, PredictionsFollowBytesAndTokens) {
  const Family& family = two_four_family();
  SparsityStatistics statistics;
  statistics.sparsity = 0.5;
  statistics.two_four_legal = 1;
  const auto best = [&](std::int64_t rows, std::int64_t cols, std::int64_t tokens) {
    const SearchSpace space = search_space(family, problem_of(rows, cols, tokens), statistics);
    EXPECT_FALSE(space.configs.empty());
    return space.configs.front().predicted_us;
  };
  EXPECT_LT(best(4096, 4096, 8), best(8192, 8192, 8));
  EXPECT_LT(best(8192, 8192, 8), best(8192, 8192, 64));
  const double floor = 8192 * 8192 * 1.125 / 4.2e6;
  EXPECT_GT(best(8192, 8192, 1), floor);
  EXPECT_LT(best(8192, 8192, 1), 1.4 * floor);
}

TEST(TwoFourFamilyTest, KernelTextDependsOnTheNameAlone) {
  const Family& family = two_four_family();
  KernelTexts texts;
  Random random(5);
  for (const auto& [rows, cols] : {std::pair{64, 600}, std::pair{700, 2048}}) {
    const CsrMatrix matrix = draw_two_four(random, rows, cols, 0.9);
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      for (const char* epilogue : {"none", "bias+relu", "beta", "residual"}) {
        Problem problem = problem_of(matrix, 16);
        problem.spec.layout = layout;
        problem.spec.epilogue = *Epilogue::parse(epilogue);
        texts.add(family, problem, matrix, compute_statistics(matrix), 7);
      }
    }
  }
  texts.expect_distinct();
}

}  // namespace
}  // namespace sparsmith::test
