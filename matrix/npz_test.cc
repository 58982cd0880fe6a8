// Readers of NumPy's and scipy's files. The files of testdata were written by numpy 2.4 and scipy 1.17 and hold the
// same matrix (bsr_2x3_fortran.npz is bsr_2x3.npz with its blocks in Fortran order):
//   1.5 0 0    0  0 -2
//   0   0 0.25 0  0  0
//   0   0 0    0  0  0
//   3   0 0   -4  5  0
#include "matrix/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "matrix/model_file.h"
#include "matrix/npy.h"
#include "matrix/zip_archive.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;

std::string test_file(const std::string& name) { return std::string(SPARSMITH_MATRIX_TESTDATA) + "/" + name; }

void expect_the_matrix(const CsrMatrix& matrix) {
  EXPECT_TRUE(matrix.validate().ok()) << matrix.validate().to_string();
  EXPECT_EQ(matrix.cols, 6);
  EXPECT_EQ(matrix.row_offsets, (std::vector<std::int64_t>{0, 2, 3, 3, 6}));
  EXPECT_EQ(matrix.column_indices, (std::vector<std::uint32_t>{0, 5, 2, 0, 3, 4}));
  EXPECT_EQ(matrix.values, (std::vector<float>{1.5, -2, 0.25, 3, -4, 5}));
}

class MatrixFileTest : public testing::TestWithParam<const char*> {};

TEST_P(MatrixFileTest, HoldsTheMatrix) {
  const Result<ModelFile> file = ModelFile::open(test_file(GetParam()));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  ASSERT_EQ(file->tensors().size(), 1);
  const Result<CsrMatrix> matrix = file->read(0);
  ASSERT_TRUE(matrix.ok()) << matrix.status().to_string();
  expect_the_matrix(*matrix);
  EXPECT_EQ(to_json(*file->statistics(0), "w"), to_json(compute_statistics(*matrix), "w"));
}

INSTANTIATE_TEST_SUITE_P(Numpy, MatrixFileTest,
                         testing::Values("c_order_f2.npy", "c_order_f4.npy", "fortran_order_f8.npy", "csr_deflated.npz",
                                         "csr_stored_f8.npz", "csc.npz", "coo.npz", "coo_array.npz", "bsr_2x3.npz",
                                         "bsr_2x3_fortran.npz"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(NpzTest, SaysWhatItCannotRead) {
  EXPECT_THAT(ModelFile::open(test_file("dia.npz")).status().message(),
              HasSubstr("scipy format 'dia' is not supported"));
}

TEST(NpzTest, EveryCutAndEveryFlippedByteIsAnErrorOrTheMatrix) {
  for (const char* name : {"csr_deflated.npz", "csr_stored_f8.npz", "bsr_2x3.npz"}) {
    std::string file = *read_file(test_file(name));
    for (std::size_t size = 0; size < file.size(); ++size) {
      EXPECT_FALSE(parse_npz(std::as_bytes(std::span(file).first(size))).ok()) << name << " cut at " << size;
    }
    for (std::size_t i = 0; i < file.size(); ++i) {
      file[i] = static_cast<char>(file[i] ^ 0x41);
      const Result<CsrMatrix> matrix = parse_npz(std::as_bytes(std::span(file)));
      if (matrix.ok()) expect_the_matrix(*matrix);  // dates and such do not matter
      file[i] = static_cast<char>(file[i] ^ 0x41);
    }
  }
}

TEST(ZipArchiveTest, KnowsItsMembers) {
  const std::string file = *read_file(test_file("csc.npz"));
  const Result<ZipArchive> archive = ZipArchive::open(std::as_bytes(std::span(file)));
  ASSERT_TRUE(archive.ok());
  for (const char* name : {"data.npy", "indices.npy", "indptr.npy", "format.npy", "shape.npy"})
    EXPECT_TRUE(archive->contains(name)) << name;
  EXPECT_FALSE(archive->contains("absent.npy"));
  EXPECT_EQ(archive->read("absent.npy").status().code(), StatusCode::kNotFound);
}

std::string npy_of(const std::string& dictionary, const std::string& data) {
  std::string file = std::string("\x93NUMPY\x01") + '\0';
  file.push_back(static_cast<char>(dictionary.size()));
  file.push_back(static_cast<char>(dictionary.size() >> 8));
  return file + dictionary + data;
}

std::string npy_error(const std::string& file) {
  const Result<NpyArray> array = parse_npy(std::as_bytes(std::span(file)));
  return array.ok() ? "no error" : array.status().message();
}

TEST(NpyTest, ReadsIntegersAndBools) {
  const std::string integers =
      npy_of("{'descr': '<i2', 'fortran_order': False, 'shape': (1, 3), }\n", std::string("\x01\0\xff\xff\0\0", 6));
  const Result<NpyArray> array = parse_npy(std::as_bytes(std::span(integers)));
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  EXPECT_EQ(csr_from_npy(*array)->values, (std::vector<float>{1, -1}));
  const std::string bools =
      npy_of("{'descr':'|b1','shape':(2,2),'fortran_order':True}", std::string("\0\x01\0\x01", 4));
  const Result<NpyArray> flags = parse_npy(std::as_bytes(std::span(bools)));
  ASSERT_TRUE(flags.ok()) << flags.status().to_string();
  EXPECT_EQ(csr_from_npy(*flags)->row_offsets, (std::vector<std::int64_t>{0, 0, 2}));
}

TEST(NpyTest, RefusesWithReason) {
  const auto with = [](const std::string& descr, const std::string& shape, std::size_t bytes) {
    return npy_error(
        npy_of("{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}", std::string(bytes, '\0')));
  };
  EXPECT_EQ(with("'<f4'", "(2, 1)", 8), "no error");
  EXPECT_THAT(with("'<f4'", "(2, 1)", 7), HasSubstr("takes 8 bytes, but 7 follow"));
  EXPECT_THAT(with("'<f4'", "(2, 1)", 9), HasSubstr("takes 8 bytes, but 9 follow"));
  EXPECT_THAT(with("'>f4'", "(2, 1)", 8), HasSubstr("big-endian"));
  EXPECT_THAT(with("'<c8'", "(1,)", 8), HasSubstr("element type '<c8'"));
  EXPECT_THAT(with("'|O'", "(1,)", 8), HasSubstr("element type '|O'"));
  EXPECT_THAT(with("[('a', '<f4')]", "(1,)", 4), HasSubstr("records"));
  EXPECT_THAT(with("'<f4'", "(-2,)", 8), HasSubstr("malformed"));
  EXPECT_THAT(with("'<f4'", "(9223372036854775807, 2)", 8), HasSubstr("overflows"));
  EXPECT_THAT(with("'<f4'", "(99999999999999999999,)", 8), HasSubstr("malformed"));
  EXPECT_THAT(npy_error("NUMPY"), HasSubstr("first bytes differ"));
  EXPECT_THAT(npy_error(npy_of("{'descr': '<f4'}", "")), HasSubstr("malformed"));
  EXPECT_THAT(npy_error(npy_of("{'descr': '<f4'", "")), HasSubstr("malformed"));
  std::string cut = npy_of("{}", "");
  cut[8] = 100;
  EXPECT_THAT(npy_error(cut), HasSubstr("cut off"));
}

TEST(NpyTest, RefusesWhatIsNoFiniteMatrix) {
  const std::string vector = npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", std::string(8, '\0'));
  EXPECT_THAT(csr_from_npy(*parse_npy(std::as_bytes(std::span(vector)))).status().message(), HasSubstr("1 dimensions"));
  const std::string nan =
      npy_of("{'descr': '<f2', 'fortran_order': False, 'shape': (1,2)}", std::string("\0\0\0\x7e", 4));
  EXPECT_THAT(csr_from_npy(*parse_npy(std::as_bytes(std::span(nan)))).status().message(),
              HasSubstr("row 0, column 1 is nan"));
}

}  // namespace
}  // namespace sparsmith
