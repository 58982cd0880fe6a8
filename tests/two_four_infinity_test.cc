// What the two_four family promises where X holds Inf or NaN: also where a group of four columns has fewer nonzeros
// than two, and its zeros stand for columns that X has Inf in.
#include "tests/infinity_checks.h"

namespace sparsmith::test {
namespace {

using Case = std::tuple<DataType, Layout, int, int, int>;  // parts of K; who adds them up; how X comes

class TwoFourInfinityTest : public testing::TestWithParam<Case> {};

TEST_P(TwoFourInfinityTest, StoredWeightsMeetItAndOthersDoNot) {
  const auto& [type, layout, column_parts, sum, input] = GetParam();
  Random random(17);
  CsrMatrix matrix;
  matrix.rows = 37;
  matrix.cols = 200;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::uint32_t group = 0; group < 200; group += 4) {
      const std::uint64_t kept = row == 5 ? 0 : random() % 11;  // a row without a nonzero; of the others each choice
      static constexpr std::uint32_t kChoices[] = {0, 1, 2, 4, 8, 3, 5, 9, 6, 10, 12};
      for (std::uint32_t column = 0; column < 4; ++column) {
        if ((kChoices[kept] >> column & 1U) == 0) continue;
        matrix.column_indices.push_back(group + column);
        static constexpr float kValues[] = {0.5F, -2.0F, 1.0F, 0.0F, -0.0F};
        matrix.values.push_back(kValues[random() % 5]);
      }
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  const Config config{"two_four",
                      {{"tiles", 2},
                       {"token_tiles", 1},
                       {"row_warps", 2},
                       {"warps", 2},
                       {"stages", 2},
                       {"bulk_copies", 1},
                       {"blocks_per_sm", 1},
                       {"column_parts", column_parts},
                       {"sum", sum},
                       {"input", input}}};
  expect_stored_weights_alone_meet_infinity(random, matrix, config, type, layout);
}

INSTANTIATE_TEST_SUITE_P(Kernels, TwoFourInfinityTest,
                         testing::Combine(testing::Values(DataType::kFloat16, DataType::kBFloat16),
                                          testing::Values(Layout::kTokenMajor, Layout::kFeatureMajor),
                                          testing::Values(2), testing::Values(0, 1), testing::Values(0, 1)));

}  // namespace
}  // namespace sparsmith::test
