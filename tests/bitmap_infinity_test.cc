// What the bitmap family promises where X holds Inf or NaN.
#include "tests/infinity_checks.h"

namespace sparsmith::test {
namespace {

using Case = std::tuple<DataType, Layout, bool, int, int>;  // offsets are stored; bits of a run; how X comes

class BitmapInfinityTest : public testing::TestWithParam<Case> {};

TEST_P(BitmapInfinityTest, StoredWeightsMeetItAndOthersDoNot) {
  const auto& [type, layout, stored_offsets, run_bits, input] = GetParam();
  Random random(17);
  constexpr std::int64_t kRows = 37;
  constexpr std::int64_t kCols = 200;
  CsrMatrix matrix;
  matrix.rows = kRows;
  matrix.cols = kCols;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < kCols; ++column) {
      if (random() % 2 == 0) continue;
      matrix.column_indices.push_back(static_cast<std::uint32_t>(column));
      matrix.values.push_back(random() % 2 == 0 ? 0.5F : -2.0F);
    }
    matrix.row_offsets.push_back(matrix.nnz());
  }
  const Config config{"bitmap",
                      {{"tiles", 2},
                       {"token_tiles", 1},
                       {"warps", 4},
                       {"stages", 2},
                       {"run_bits", run_bits},
                       {"stored_offsets", stored_offsets ? 1 : 0},
                       {"bulk_copies", 1},
                       {"blocks_per_sm", 1},
                       {"column_parts", 1},
                       {"input", input}}};
  expect_stored_weights_alone_meet_infinity(random, matrix, config, type, layout);
}

INSTANTIATE_TEST_SUITE_P(Kernels, BitmapInfinityTest,
                         testing::Combine(testing::Values(DataType::kFloat16, DataType::kBFloat16),
                                          testing::Values(Layout::kTokenMajor, Layout::kFeatureMajor), testing::Bool(),
                                          testing::Values(4, 8), testing::Values(0, 1)));

}  // namespace
}  // namespace sparsmith::test
