#include "matrix/dense_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include "base/file.h"
#include "base/half.h"
#include "base/temporary_directory.h"
#include "matrix/synthesis.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

// Elements of a random matrix with every kind of zero and denormals among them, at an odd address.
struct RandomDense {
  RandomDense(std::mt19937_64& random, std::int64_t rows, std::int64_t cols, DataType type) : bytes(1) {
    const std::uint64_t zeros = random() % 11;
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const std::uint64_t draw = random();
      std::uint32_t bits = draw % 10 < zeros            ? 0
                           : draw % 100 == 99           ? 1
                           : type == DataType::kFloat32 ? 0x3F812345
                                                        : 0x3C01;
      if ((draw >> 32 & 1) != 0) bits |= type == DataType::kFloat32 ? 0x80000000U : 0x8000U;
      const std::size_t size = size_of(type);
      bytes.resize(bytes.size() + size);
      std::memcpy(bytes.data() + bytes.size() - size, &bits, size);
    }
    matrix = {reinterpret_cast<const std::byte*>(bytes.data()) + 1, rows, cols, type};
  }
  std::vector<char> bytes;
  DenseMatrix matrix;
};

TEST(DenseMatrixTest, ConvertsWhatElementSays) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    const RandomDense dense(random, 1 + random() % 9, 1 + random() % 200, kTypes[round % 3]);
    const Result<CsrMatrix> csr = csr_from_dense(dense.matrix);
    ASSERT_TRUE(csr.ok()) << csr.status().to_string();
    ASSERT_TRUE(csr->validate().ok()) << csr->validate().to_string();
    std::int64_t position = 0;
    for (std::int64_t row = 0; row < csr->rows; ++row) {
      for (std::int64_t column = 0; column < csr->cols; ++column) {
        const float value = dense.matrix.element(row, column);
        if (value == 0.0F) continue;
        ASSERT_LT(position, csr->row_offsets[row + 1]);
        ASSERT_EQ(csr->column_indices[position], column);
        ASSERT_EQ(csr->values[position++], value);
      }
      ASSERT_EQ(position, csr->row_offsets[row + 1]);
    }
  }
}

void expect_equal(const SparsityStatistics& a, const SparsityStatistics& b) {
  EXPECT_EQ(to_json(a, "w"), to_json(b, "w"));
  EXPECT_EQ(a.row_length_quantiles, b.row_length_quantiles);
}

TEST(DenseMatrixTest, StreamedStatisticsEqualThoseOfTheMatrix) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 150; ++round) {
    const auto rows = static_cast<std::int64_t>(random() % (round % 10 == 0 ? 700 : 70));
    const auto cols = static_cast<std::int64_t>(random() % (round % 7 == 0 ? 900 : 140));
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
    const RandomDense dense(random, rows, cols, kTypes[round % 3]);
    const Result<SparsityStatistics> streamed = compute_dense_statistics(dense.matrix, 1 + round % 4);
    ASSERT_TRUE(streamed.ok()) << streamed.status().to_string();
    expect_equal(*streamed, compute_statistics(*csr_from_dense(dense.matrix)));
  }
}

TEST(DenseMatrixTest, StreamsMatricesOfManyChunks) {
  for (const char* pattern : {"lognormal:1", "2:4", "block:8"}) {
    SynthesisSpec spec{.rows = 5003,
                       .cols = 3001,
                       .sparsity = 0.9,
                       .pattern = *parse_synthesis_pattern(pattern),
                       .data_type = DataType::kFloat16,
                       .seed = 3};
    const Result<CsrMatrix> csr = synthesize(spec);
    ASSERT_TRUE(csr.ok());
    const std::string bytes = dense_bytes(*csr);
    const DenseMatrix dense{reinterpret_cast<const std::byte*>(bytes.data()), csr->rows, csr->cols, csr->data_type};
    for (const int threads : {1, 2, 5})
      expect_equal(*compute_dense_statistics(dense, threads), compute_statistics(*csr));
    EXPECT_EQ(csr_from_dense(dense)->values, csr->values);
  }
}

TEST(DenseMatrixTest, NamesTheFirstElementThatIsNotFinite) {
  for (const DataType type : kTypes) {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::int64_t column : {0, 63, 64, 130}) {
        std::vector<char> bytes(200 * 131 * size_of(type));
        const std::uint16_t half = type == DataType::kFloat16 ? fp16_from_float(bad) : bf16_from_float(bad);
        for (const std::int64_t row : {77, 150}) {
          char* const at = bytes.data() + (row * 131 + column) * size_of(type);
          if (type == DataType::kFloat32)
            std::memcpy(at, &bad, 4);
          else
            std::memcpy(at, &half, 2);
        }
        const DenseMatrix dense{reinterpret_cast<const std::byte*>(bytes.data()), 200, 131, type};
        const std::string expected = "row 77, column " + std::to_string(column);
        EXPECT_THAT(csr_from_dense(dense).status().message(), HasSubstr(expected));
        EXPECT_THAT(compute_dense_statistics(dense, 2).status().message(), HasSubstr(expected));
      }
    }
  }
}

std::int64_t peak_resident_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// A file of a gigabyte, which a hole makes free of charge: neither the counts nor the mapped pages may pile up.
TEST(DenseMatrixTest, ALargeFileTakesLittleMemory) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("large");
  ASSERT_TRUE(write_file_atomically(path, "x").ok());
  constexpr std::int64_t kRows = 65536;
  constexpr std::int64_t kCols = 8192;
  std::filesystem::resize_file(path, kRows * kCols * 2);
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  const std::int64_t before = peak_resident_kib();
  const DenseMatrix dense{file->bytes().data(), kRows, kCols, DataType::kFloat16};
  const auto release = [&](std::size_t offset, std::size_t size) { file->release(offset, size); };
  const Result<SparsityStatistics> statistics = compute_dense_statistics(dense, 2, release);
  ASSERT_TRUE(statistics.ok());
  EXPECT_EQ(statistics->nnz, 1);
  EXPECT_LT(peak_resident_kib() - before, 64 * 1024);
}

}  // namespace
}  // namespace sparsmith
