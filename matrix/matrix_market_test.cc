#include "matrix/matrix_market.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <string>

#include "matrix/model_file.h"

namespace sparsmith {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const Result<CsrMatrix> matrix = parse_matrix_market(text, 1);
  return matrix.ok() ? "no error" : matrix.status().message();
}

TEST(MatrixMarketTest, ReadsRealGeneral) {
  const auto matrix = parse_matrix_market(
      "%%MatrixMarket matrix coordinate real general\n% c\n\n2 3 4\n2 3 +1.5\r\n1 1 -2e0\n2 1 0\n2 3 .5", 1);
  ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
  EXPECT_EQ(matrix->row_offsets, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(matrix->column_indices, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(matrix->values, (std::vector<float>{-2, 2}));  // entries at one position are summed, zeros dropped
}

TEST(MatrixMarketTest, MirrorsSymmetricAndSkewSymmetric) {
  const auto symmetric =
      parse_matrix_market("%%matrixmarket MATRIX Coordinate Integer Symmetric\n2 2 2\n1 1 3\n2 1 4\n", 1);
  EXPECT_FALSE(symmetric.ok());  // the banner's first word is fixed
  const auto read = parse_matrix_market("%%MatrixMarket MATRIX Coordinate Integer Symmetric\n2 2 2\n1 1 3\n2 1 4\n", 1);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->values, (std::vector<float>{3, 4, 4}));
  const auto skew = parse_matrix_market("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 4\n", 1);
  ASSERT_TRUE(skew.ok()) << skew.status().to_string();
  EXPECT_EQ(skew->values, (std::vector<float>{-4, 4}));
}

TEST(MatrixMarketTest, DrawsThePatternsValuesBySeed) {
  const char* const text = "%%MatrixMarket matrix coordinate pattern general\n2 2 3\n1 1\n2 2\n2 2\n";
  const auto one = parse_matrix_market(text, 1);
  const auto again = parse_matrix_market(text, 1);
  const auto other = parse_matrix_market(text, 2);
  ASSERT_TRUE(one.ok() && again.ok() && other.ok());
  EXPECT_EQ(one->nnz(), 2);
  EXPECT_TRUE(one->validate().ok());
  EXPECT_EQ(one->values, again->values);
  EXPECT_NE(one->values, other->values);
}

TEST(MatrixMarketTest, ReadsArraysByColumn) {
  const auto matrix = parse_matrix_market("%%MatrixMarket matrix array real general\n2 3\n1\n0\n2\n3\n-0.0\n4\n", 1);
  ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
  EXPECT_EQ(matrix->column_indices, (std::vector<std::uint32_t>{0, 1, 1, 2}));
  EXPECT_EQ(matrix->values, (std::vector<float>{1, 2, 3, 4}));
  const auto skew = parse_matrix_market("%%MatrixMarket matrix array real skew-symmetric\n2 2\n5\n", 1);
  ASSERT_TRUE(skew.ok()) << skew.status().to_string();
  EXPECT_EQ(skew->values, (std::vector<float>{-5, 5}));
}

TEST(MatrixMarketTest, RefusesWithLineAndReason) {
  const std::string general = "%%MatrixMarket matrix coordinate real general\n";
  EXPECT_THAT(error_of(""), HasSubstr("line 1: expected the banner"));
  EXPECT_THAT(error_of(general + "2 2 1\n3 1 1\n"), HasSubstr("line 3: row index 3 is outside of [1, 2]"));
  EXPECT_THAT(error_of(general + "2 2 1\n1 0 1\n"), HasSubstr("line 3: column index 0 is outside"));
  EXPECT_THAT(error_of(general + "2 2 2\n1 1 1\n1 2 9"), HasSubstr("no error"));
  EXPECT_THAT(error_of(general + "2 2 2\n1 1 100000\n"), HasSubstr("the file ends after 1 of 2 entries"));
  EXPECT_THAT(error_of(general + "2 2 1\n1 1 1\n2 2 2\n"), HasSubstr("line 4: more entries follow"));
  EXPECT_THAT(error_of(general + "2 2 1\n1 1 1 1\n"), HasSubstr("more fields than expected"));
  EXPECT_THAT(error_of(general + "2 2 1\n1 1 nan\n"), HasSubstr("row 0, column 0 is nan"));
  EXPECT_THAT(error_of(general + "2 2 1\n1 1 1e300\n"), HasSubstr("beyond the range of fp32"));
  EXPECT_THAT(error_of(general + "9999999999 2 0\n"), testing::ContainsRegex("line 2: .*exceeds the limit"));
  EXPECT_THAT(error_of("%%MatrixMarket matrix coordinate real symmetric\n9999999999 2 0\n"),
              HasSubstr("exceeds the limit"));
  EXPECT_THAT(error_of(general + "99999999999999999999 2 0\n"), HasSubstr("line 2: the size line"));
  EXPECT_THAT(error_of(general + "1000000 1000000 900000000000\n"), HasSubstr("do not fit a file of"));
  EXPECT_THAT(error_of("%%MatrixMarket vector coordinate real general\n2 2 0\n"), HasSubstr("object 'vector'"));
  EXPECT_THAT(error_of("%%MatrixMarket matrix elemental real general\n2 2 0\n"), HasSubstr("format 'elemental'"));
  EXPECT_THAT(error_of("%%MatrixMarket matrix coordinate quaternion general\n2 2 0\n"), HasSubstr("'quaternion'"));
  EXPECT_THAT(error_of("%%MatrixMarket matrix coordinate real circulant\n2 2 0\n"), HasSubstr("'circulant'"));
  EXPECT_THAT(error_of("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 1\n"),
              HasSubstr("above the diagonal"));
  EXPECT_THAT(error_of("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n"),
              HasSubstr("on the diagonal"));
}

class MatrixMarketFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* data = getenv("SPARSMITH_TEST_DATA");
    if (data == nullptr || !fs::exists(fs::path(data) / "mtx_malformed")) {
      GTEST_SKIP() << "SPARSMITH_TEST_DATA names no directory with mtx and mtx_malformed";
    }
    root_ = data;
  }
  fs::path root_;
};

TEST_F(MatrixMarketFilesTest, ReadsRealMatrices) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(root_ / "mtx")) {
    const Result<ModelFile> file = ModelFile::open(entry.path().string());
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    const Result<CsrMatrix> matrix = file->read(0);
    ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
    EXPECT_TRUE(matrix->validate().ok()) << entry.path() << matrix->validate().to_string();
    EXPECT_GT(matrix->nnz(), 0) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 15);
  const Result<ModelFile> graph = ModelFile::open((root_ / "mtx/G35.mtx").string());
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->statistics(0)->nnz, 2 * 11778);  // as its header says, each edge both ways
}

TEST_F(MatrixMarketFilesTest, ReadsOrRefusesEveryOddFile) {
  // Nonzeros of what is a valid Matrix Market file, whatever else it was made to test (value types in comments bind
  // nobody, and duplicates are summed); part of the message for what is none.
  const std::map<std::string, int> valid = {{"comments_full.mtx", 9},
                                            {"empty.mtx", 0},
                                            {"full.mtx", 9},
                                            {"full_symmetric.mtx", 16},
                                            {"mangled14.mtx", 2},
                                            {"mangled_bool.mtx", 7},
                                            {"mangled_int8.mtx", 11},
                                            {"mangled_int16.mtx", 11},
                                            {"mangled_int32.mtx", 11},
                                            {"mangled_uint8.mtx", 10},
                                            {"mangled_uint16.mtx", 10},
                                            {"mangled_uint32.mtx", 10},
                                            {"mangled_skew.mtx", 18},
                                            {"west0067_jumbled.mtx", 294}};
  const std::map<std::string, std::string> refused = {{"complex.mtx", "complex matrices are not supported"},
                                                      {"full_noheader.mtx", "banner"},
                                                      {"mangled1.mtx", "object 'mangled'"},
                                                      {"mangled2.mtx", "unknown format 'mangled'"},
                                                      {"mangled3.mtx", "unknown field 'mangled'"},
                                                      {"mangled4.mtx", "unknown symmetry 'mangled'"},
                                                      {"mangled5.mtx", "hermitian"},
                                                      {"mangled6.mtx", "hermitian"},
                                                      {"mangled7.mtx", "line 5: the real value is missing"},
                                                      {"mangled8.mtx", "line 4: the size line"},
                                                      {"mangled9.mtx", "cannot be symmetric"},
                                                      {"mangled10.mtx", "the file ends after 2 of 3 entries"},
                                                      {"mangled11.mtx", "'zero' is no column index"},
                                                      {"mangled12.mtx", "line 5: the real value is missing"},
                                                      {"mangled13.mtx", "column index 9999 is outside of [1, 4]"},
                                                      {"mangled15.mtx", "must be one number"},
                                                      {"mangled16.mtx", "must be one number"},
                                                      {"mangled_format.mtx", "an array cannot be a pattern"},
                                                      {"west0067_noheader.mtx", "banner"}};
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(root_ / "mtx_malformed")) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    const Result<ModelFile> file = ModelFile::open(entry.path().string());
    ++files;
    if (const auto found = valid.find(name); found != valid.end()) {
      ASSERT_TRUE(file.ok()) << file.status().to_string();
      EXPECT_EQ(file->read(0)->nnz(), found->second);
      EXPECT_TRUE(file->read(0)->validate().ok());
      continue;
    }
    ASSERT_FALSE(file.ok());
    ASSERT_TRUE(refused.contains(name));
    EXPECT_THAT(file.status().message(), HasSubstr(refused.at(name)));
    EXPECT_THAT(file.status().message(), HasSubstr(name));
  }
  EXPECT_EQ(files, valid.size() + refused.size());
}

}  // namespace
}  // namespace sparsmith
