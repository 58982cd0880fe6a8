#include "matrix/smtx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sparsmith {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const Result<CsrMatrix> matrix = parse_smtx(text, 1);
  return matrix.ok() ? "no error" : matrix.status().message();
}

TEST(SmtxTest, ReadsBothDialects) {
  const auto commas = parse_smtx("2, 4, 3\n0 2 3\n0 3 1 \n", 1);
  const auto blanks = parse_smtx("% a comment\n2 4 3\n0 2\n% another\n3\n3 0\n1", 1);
  ASSERT_TRUE(commas.ok()) << commas.status().to_string();
  ASSERT_TRUE(blanks.ok()) << blanks.status().to_string();
  EXPECT_EQ(commas->rows, 2);
  EXPECT_EQ(commas->cols, 4);
  EXPECT_EQ(commas->column_indices, (std::vector<std::uint32_t>{0, 3, 1}));
  EXPECT_EQ(commas->pattern_hash(), blanks->pattern_hash());  // columns of a row may come in any order
  EXPECT_EQ(commas->values, blanks->values);
  EXPECT_TRUE(commas->validate().ok());
}

TEST(SmtxTest, ReadsMatricesWithoutNonzeros) {
  const auto matrix = parse_smtx("3, 5, 0\n0 0 0 0\n\n", 1);
  ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
  EXPECT_EQ(matrix->rows, 3);
  EXPECT_EQ(matrix->nnz(), 0);
  EXPECT_TRUE(parse_smtx("0, 0, 0\n0\n", 1).ok());
}

TEST(SmtxTest, WritesWhatItReads) {
  const std::string text = "2, 4, 3\n0 2 3\n0 3 1\n";
  EXPECT_EQ(smtx_text(*parse_smtx(text, 1)), text);
}

TEST(SmtxTest, RefusesWithLineAndReason) {
  EXPECT_THAT(error_of(""), HasSubstr("the file ends before the number of rows"));
  EXPECT_THAT(error_of("2, 4"), HasSubstr("line 1: the file ends before the number of nonzeros"));
  EXPECT_THAT(error_of("2, four, 3"), HasSubstr("'four' is no number; expected the number of columns"));
  EXPECT_THAT(error_of("2, 4, 9\n0 2 3\n0 3 1 5\n"), HasSubstr("the number of nonzeros is 9, outside of [0, 8]"));
  EXPECT_THAT(error_of("60000000, 60000000, 3000000000000\n0\n"), HasSubstr("do not fit a file of"));
  EXPECT_THAT(error_of("-2, 4, 3\n0 2 3\n0 3 1\n"), HasSubstr("is -2, outside"));
  EXPECT_THAT(error_of("2, 4, 3\n1 2 3\n0 3 1\n"), HasSubstr("line 2: the first row offset is 1"));
  EXPECT_THAT(error_of("2, 4, 3\n0 3 2\n0 3 1\n"), HasSubstr("row offset 2 is 2, after 3"));
  EXPECT_THAT(error_of("2, 4, 3\n0 2 2\n0 3 1\n"), HasSubstr("the last row offset is 2 with 3 nonzeros"));
  EXPECT_THAT(error_of("2, 4, 3\n0 2 3\n0 4 1\n"), HasSubstr("line 3: a column index is 4, outside of [0, 3]"));
  EXPECT_THAT(error_of("2, 4, 3\n0 2 3\n0 0 1\n"), HasSubstr("row 0 holds column 0 twice"));
  EXPECT_THAT(error_of("2, 4, 3\n0 2 3\n100 % 3\n"), HasSubstr("outside"));
  EXPECT_THAT(error_of("2, 4, 3\n0 2 3\n0 3 1 2\n"), HasSubstr("'2' follows after the last column index"));
  EXPECT_THAT(error_of("2, 4, 3\n0  2   3 \n0   3"), HasSubstr("the file ends before a column index"));
}

}  // namespace
}  // namespace sparsmith
