#include "formats/row_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "matrix/synthesis.h"
#include "tests/support/drawn_matrix.h"

namespace sparsmith::test {
namespace {

constexpr std::int64_t kRows = 2048;

// Nonzeros of the fullest block over those of the average one.
double fullest(const CsrMatrix& matrix, const std::vector<std::uint32_t>& first_rows, std::size_t parts_of_block) {
  std::vector<std::int64_t> nonzeros(first_rows.size() / parts_of_block, 0);
  for (std::size_t i = 0; i < first_rows.size(); ++i) {
    nonzeros[i / parts_of_block] += matrix.row_offsets[first_rows[i] + kPartRows] - matrix.row_offsets[first_rows[i]];
  }
  return static_cast<double>(*std::ranges::max_element(nonzeros)) * static_cast<double>(nonzeros.size()) /
         static_cast<double>(matrix.nnz());
}

std::vector<std::uint32_t> in_order(std::size_t count) {
  std::vector<std::uint32_t> first_rows(count);
  for (std::size_t i = 0; i < count; ++i) first_rows[i] = static_cast<std::uint32_t>(i * kPartRows);
  return first_rows;
}

TEST(RowPartsTest, BlocksHoldAboutAsManyNonzeros) {
  DrawnRandom random;
  SynthesisSpec spec;
  spec.rows = kRows;
  spec.cols = 512;
  spec.sparsity = 0.6;
  spec.pattern = {SynthesisPattern::Kind::kLognormal, 0.5};
  double excess = 0;  // of the fullest blocks over average ones, summed: in one matrix a single part may be to blame
  double natural_excess = 0;
  for (int round = 0; round < 3; ++round) {
    spec.seed = random();
    const auto matrix = synthesize(spec);
    ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
    for (const int parts : {2, 4}) {
      const auto dealt = deal_row_parts(matrix->row_offsets, parts);
      const double natural = fullest(*matrix, in_order(dealt.size()), parts);
      EXPECT_LE(fullest(*matrix, dealt, parts), natural) << parts;
      excess += fullest(*matrix, dealt, parts) - 1;
      natural_excess += natural - 1;
      const PackedArray array = array_of("row_parts", DataType::kUint32, dealt);
      EXPECT_TRUE(check_row_parts(Elements<std::uint32_t>(array.bytes)).ok());
      EXPECT_TRUE(check_dealt_parts(Elements<std::uint32_t>(array.bytes), matrix->row_offsets, parts).ok());
    }
    EXPECT_EQ(deal_row_parts(matrix->row_offsets, 1), in_order(kRows / kPartRows));
  }
  EXPECT_GT(natural_excess, 6 * 0.04);
  EXPECT_LT(excess, 0.5 * natural_excess);
}

TEST(RowPartsTest, PartsThatAreMissingOrThereTwiceAreRefused) {
  const auto refusal = [](const std::vector<std::uint32_t>& first_rows) {
    const PackedArray array = array_of("row_parts", DataType::kUint32, first_rows);
    return check_row_parts(Elements<std::uint32_t>(array.bytes));
  };
  EXPECT_TRUE(refusal({16, 0, 32}).ok());
  EXPECT_TRUE(refusal({}).ok());
  for (const auto& wrong : {std::vector<std::uint32_t>{16, 16, 0}, {16, 0, 48}, {16, 0, 8}}) {
    const Status status = refusal(wrong);
    EXPECT_EQ(status.code(), StatusCode::kInvalidInput);
    EXPECT_THAT(status.message(), testing::HasSubstr("a part of a row block begins at row"));
  }
}

}  // namespace
}  // namespace sparsmith::test
