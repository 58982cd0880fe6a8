#include "generator/families/bsr/bsr_family.h"

#include <gtest/gtest.h>

#include "tests/support/family_checks.h"

namespace sparsmith::test {
namespace {

// Blocks of 16 x 32, of which every third holds nonzeros.
CsrMatrix draw_blocks(Random& random, std::int64_t rows, std::int64_t cols) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < cols; ++column) {
      if ((row / 16 + column / 32) % 3 != 0 || random() % 4 == 0) continue;
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(1.0F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  return matrix;
}

TEST(BsrFamilyTest, EveryFoundConfigIsLegalAndItsPlanIsWhole) {
  const Family& family = bsr_family();
  Random random(9);
  const CsrMatrix matrices[] = {draw_matrix(random, 300, 1000, 0.1), draw_blocks(random, 300, 1000)};
  for (const CsrMatrix& matrix : matrices) {
    const SparsityStatistics statistics = compute_statistics(matrix);
    for (const std::int64_t tokens : {1, 8, 33, 512}) {
      const Problem problem = problem_of(matrix, tokens);
      const SearchSpace space = search_space(family, problem, statistics);
      ASSERT_GT(space.configs.size(), 4U) << "N = " << tokens;
      for (std::size_t i = 0; i < space.configs.size(); i += 7)
        expect_whole_candidate(family, space.configs[i], problem, matrix, statistics);
    }
  }
}

TEST(BsrFamilyTest, EmptyBlocksAreLeftOutWhereManyAre) {
  const Family& family = bsr_family();
  Random random(9);
  const CsrMatrix drawn = draw_matrix(random, 300, 1000, 0.1);
  const CsrMatrix blocks = draw_blocks(random, 300, 1000);
  for (const CsrMatrix* matrix : {&drawn, &blocks}) {
    const SearchSpace space = search_space(family, problem_of(*matrix, 16), compute_statistics(*matrix));
    ASSERT_FALSE(space.configs.empty());
    for (const auto& predicted : space.configs) EXPECT_EQ(predicted.config.at("all"), matrix == &drawn ? 1 : 0);
  }
}

TEST(BsrFamilyTest, ValuesOf32BitsAreRefused) {
  const Family& family = bsr_family();
  Random random(9);
  const CsrMatrix matrix = draw_matrix(random, 64, 128, 0.5);
  Problem problem = problem_of(matrix, 8);
  problem.spec.type = DataType::kFloat32;
  EXPECT_TRUE(search_space(family, problem, compute_statistics(matrix)).configs.empty());
}

TEST(BsrFamilyTest, PredictionsFollowBytesAndTokens) {
  const Family& family = bsr_family();
  SparsityStatistics statistics;
  statistics.block_touched.fill(1);
  const auto best = [&](std::int64_t rows, std::int64_t cols, std::int64_t tokens) {
    statistics.rows = rows;
    statistics.cols = cols;
    const SearchSpace space = search_space(family, problem_of(rows, cols, tokens), statistics);
    EXPECT_FALSE(space.configs.empty());
    return space.configs.front().predicted_us;
  };
  EXPECT_LT(best(512, 512, 32), best(1000, 2048, 32));
  EXPECT_LT(best(512, 512, 32), best(512, 512, 256));
  EXPECT_LT(best(512, 512, 32), 4.0);
  EXPECT_GT(best(8192, 8192, 32), 30.0);  // HBM's time for all of it
}

TEST(BsrFamilyTest, KernelTextDependsOnTheNameAlone) {
  expect_text_depends_on_name_alone(bsr_family(), {{64, 300}, {700, 2048}});
}

}  // namespace
}  // namespace sparsmith::test
