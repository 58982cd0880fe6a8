#include "matrix/csr_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sparsmith {
namespace {

// 1 0 2
// 0 0 0
// 0 3 4
CsrMatrix small_matrix() {
  CsrMatrix matrix;
  matrix.rows = 3;
  matrix.cols = 3;
  matrix.row_offsets = {0, 2, 2, 4};
  matrix.column_indices = {0, 2, 1, 2};
  matrix.values = {1, 2, 3, 4};
  return matrix;
}

TEST(CsrMatrixTest, SmallMatrixIsValid) {
  EXPECT_TRUE(small_matrix().validate().ok());
  EXPECT_DOUBLE_EQ(small_matrix().sparsity(), 5.0 / 9.0);
  EXPECT_TRUE(CsrMatrix{}.validate().ok());
  EXPECT_EQ(CsrMatrix{}.sparsity(), 0);
}

TEST(CsrMatrixTest, ValidateNamesWhatIsBroken) {
  const auto message = [](auto&& change) {
    CsrMatrix matrix = small_matrix();
    change(matrix);
    const Status status = matrix.validate();
    return status.ok() ? "ok" : status.message();
  };
  EXPECT_THAT(message([](CsrMatrix& m) { m.column_indices[3] = 3; }), testing::HasSubstr("row 2: column 3 is outside"));
  EXPECT_THAT(message([](CsrMatrix& m) { m.column_indices[1] = 0; }),
              testing::HasSubstr("row 0: column 0 follows column 0"));
  EXPECT_THAT(message([](CsrMatrix& m) { m.values[2] = -0.0F; }), testing::HasSubstr("row 2, column 1: value is -0"));
  EXPECT_THAT(message([](CsrMatrix& m) { m.values[0] = std::numeric_limits<float>::infinity(); }),
              testing::HasSubstr("inf"));
  EXPECT_THAT(message([](CsrMatrix& m) { m.row_offsets = {0, 3, 2, 4}; }),
              testing::HasSubstr("row 1: the row offsets decrease"));
  EXPECT_THAT(message([](CsrMatrix& m) { m.row_offsets.pop_back(); }), testing::HasSubstr("3 row offsets for 3 rows"));
  EXPECT_THAT(message([](CsrMatrix& m) { m.row_offsets[0] = 1; }), testing::HasSubstr("the first row offset is 1"));
  EXPECT_THAT(message([](CsrMatrix& m) { m.row_offsets[3] = 3; }), testing::HasSubstr("the last row offset is 3"));
  EXPECT_THAT(message([](CsrMatrix& m) { m.values.pop_back(); }), testing::HasSubstr("3 values for 4"));
  EXPECT_THAT(message([](CsrMatrix& m) { m.rows = -1; }), testing::HasSubstr("negative"));
}

TEST(CsrMatrixTest, HashesTellPatternAndValuesApart) {
  const CsrMatrix matrix = small_matrix();
  CsrMatrix other_values = matrix;
  other_values.values[0] = 5;
  EXPECT_EQ(matrix.pattern_hash(), other_values.pattern_hash());
  EXPECT_NE(matrix.value_hash(), other_values.value_hash());
  CsrMatrix other_pattern = matrix;
  other_pattern.column_indices[0] = 1;
  EXPECT_NE(matrix.pattern_hash(), other_pattern.pattern_hash());
  EXPECT_EQ(matrix.value_hash(), other_pattern.value_hash());
  CsrMatrix wider = matrix;
  wider.cols = 4;
  EXPECT_NE(matrix.pattern_hash(), wider.pattern_hash());
}

TEST(CsrMatrixTest, TransposesThereAndBack) {
  CsrMatrix matrix = small_matrix();
  const CsrMatrix transpose = transposed(matrix);
  EXPECT_TRUE(transpose.validate().ok());
  EXPECT_EQ(transpose.row_offsets, (std::vector<std::int64_t>{0, 1, 2, 4}));
  EXPECT_EQ(transpose.column_indices, (std::vector<std::uint32_t>{0, 2, 0, 2}));
  EXPECT_EQ(transpose.values, (std::vector<float>{1, 3, 2, 4}));
  const CsrMatrix back = transposed(transpose);
  EXPECT_EQ(back.pattern_hash(), matrix.pattern_hash());
  EXPECT_EQ(back.values, matrix.values);
}

TEST(CsrMatrixTest, RowsGoUnderRows) {
  CsrMatrix matrix = small_matrix();
  CsrMatrix below = transposed(transposed(small_matrix()));
  below.values = {5, 6, 7, 8};
  ASSERT_TRUE(append_rows(matrix, below).ok());
  EXPECT_TRUE(matrix.validate().ok());
  EXPECT_EQ(matrix.rows, 6);
  EXPECT_EQ(matrix.row_offsets, (std::vector<std::int64_t>{0, 2, 2, 4, 6, 6, 8}));
  EXPECT_EQ(matrix.column_indices, (std::vector<std::uint32_t>{0, 2, 1, 2, 0, 2, 1, 2}));
  EXPECT_EQ(matrix.values, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));

  const std::string hash = matrix.pattern_hash();
  CsrMatrix wider = below;
  wider.cols = 4;
  EXPECT_THAT(append_rows(matrix, wider).message(), testing::HasSubstr("different inputs"));
  EXPECT_THAT(append_rows(matrix, converted(below, DataType::kFloat16)).message(), testing::HasSubstr("fp16"));
  below.rows = kMaxMatrixDimension;
  EXPECT_EQ(append_rows(matrix, below).code(), StatusCode::kUnsupported);
  EXPECT_EQ(matrix.pattern_hash(), hash);
}

TEST(CsrMatrixTest, ConversionKeepsThePattern) {
  CsrMatrix matrix = small_matrix();
  matrix.values = {1e-9F, 2.0001F, 3, 4};
  const CsrMatrix half = converted(matrix, DataType::kFloat16);
  EXPECT_TRUE(half.validate().ok());
  EXPECT_EQ(half.data_type, DataType::kFloat16);
  EXPECT_EQ(half.pattern_hash(), matrix.pattern_hash());
  EXPECT_EQ(half.values, (std::vector<float>{0, 2, 3, 4}));
  EXPECT_FALSE(std::signbit(converted({matrix, DataType::kFloat32, {-1e-9F, 1, 1, 1}}, DataType::kFloat16).values[0]));
  matrix.values[3] = 1e6F;
  EXPECT_FALSE(converted(matrix, DataType::kFloat16).validate().ok());
}

}  // namespace
}  // namespace sparsmith
