#include "matrix/synthesis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/half.h"
#include "matrix/dense_matrix.h"
#include "matrix/random_values.h"
#include "matrix/sparsity_statistics.h"

namespace sparsmith {
namespace {

CsrMatrix drawn(const char* pattern, std::int64_t rows, std::int64_t cols, double sparsity, std::uint64_t seed = 7,
                DataType type = DataType::kFloat16) {
  const Result<SynthesisPattern> parsed = parse_synthesis_pattern(pattern);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  const Result<CsrMatrix> matrix = synthesize({rows, cols, sparsity, *parsed, type, seed});
  EXPECT_TRUE(matrix.ok()) << pattern << ": " << matrix.status().to_string();
  EXPECT_TRUE(matrix->validate().ok()) << pattern << ": " << matrix->validate().to_string();
  return *matrix;
}

TEST(RandomValuesTest, ExponentialAndLogarithmAreClose) {
  for (double x = -20; x < 20; x += 0.37) EXPECT_NEAR(portable_exp(x) / std::exp(x), 1.0, 1e-13) << x;
  for (double x = 1e-6; x < 1e9; x *= 1.7)
    EXPECT_NEAR(portable_log(x), std::log(x), 1e-13 * std::max(1.0, std::fabs(std::log(x)))) << x;
}

TEST(RandomValuesTest, StreamsAreUniformAndNormal) {
  RandomStream random(5);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[random.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 100000; ++i) {
    const double z = random.normal();
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / 100000, 0, 0.02);
  EXPECT_NEAR(squares / 100000, 1, 0.03);
}

TEST(SynthesisTest, NumberOfNonzerosIsExact) {
  for (const char* pattern : {"uniform", "lognormal:0.5", "lognormal:3", "power:1.5", "2:4"}) {
    for (const double sparsity : {0.5, 0.7, 0.9, 0.99, 0.999, 1.0}) {
      for (const auto& [rows, cols] : {std::pair{64, 147}, {1000, 2048}, {1, 3000}, {3000, 1}, {1, 1}, {5, 7}}) {
        const auto wanted = std::llround((1 - sparsity) * rows * cols);
        if (std::string(pattern) == "2:4" && wanted > rows * (cols / 4 * 2 + std::min(cols % 4, 2))) continue;
        EXPECT_EQ(drawn(pattern, rows, cols, sparsity).nnz(), wanted)
            << pattern << " " << sparsity << " " << rows << " x " << cols;
      }
    }
  }
  EXPECT_EQ(drawn("uniform", 50, 60, 0).nnz(), 3000);
  EXPECT_EQ(drawn("lognormal:1", 50, 60, 0).nnz(), 3000);
}

TEST(SynthesisTest, PatternsAreAsDispersedAsTheySay) {
  const SparsityStatistics uniform = compute_statistics(drawn("uniform", 2000, 2000, 0.9));
  EXPECT_NEAR(uniform.row_cov, std::sqrt(0.9 / 200), 0.01);  // binomial
  EXPECT_NEAR(uniform.column_cov, std::sqrt(0.9 / 200), 0.01);
  const SparsityStatistics lognormal = compute_statistics(drawn("lognormal:0.5", 2000, 2000, 0.98));
  EXPECT_NEAR(lognormal.row_cov, std::sqrt(std::exp(0.25) - 1 + 0.98 / 40), 0.06);
  EXPECT_NEAR(lognormal.column_cov, std::sqrt(std::exp(0.25) - 1 + 0.98 / 40), 0.06);
  const SparsityStatistics power = compute_statistics(drawn("power:1", 2000, 2000, 0.99));
  EXPECT_GT(power.row_max_over_mean, 50);
  EXPECT_LT(power.column_cov, 0.3);
  const SparsityStatistics block = compute_statistics(drawn("block:16", 2000, 2000, 0.9));
  EXPECT_DOUBLE_EQ(block.block_fill[2], 1.0);
  EXPECT_NEAR(block.sparsity, 0.9, 0.005);
  const SparsityStatistics wide = compute_statistics(drawn("block:16x64", 2048, 2048, 0.9));
  EXPECT_DOUBLE_EQ(wide.block_fill[2], 1.0);
  EXPECT_GT(wide.block_touched[4], 2.5 * wide.block_touched[2]);
  EXPECT_EQ(drawn("block:8x8", 100, 90, 0.5).pattern_hash(), drawn("block:8", 100, 90, 0.5).pattern_hash());
  EXPECT_EQ(compute_statistics(drawn("2:4", 500, 1001, 0.5)).two_four_legal, 1.0);
  EXPECT_EQ(compute_statistics(drawn("2:4", 500, 1000, 0.5)).row_max, 500);
  const CsrMatrix both = drawn("2:4-transposable", 500, 1000, 0.5);
  EXPECT_EQ(both.nnz(), 250000);
  for (const CsrMatrix& each : {both, transposed(both), transposed(drawn("2:4-transposable", 64, 48, 0.6))})
    EXPECT_EQ(compute_statistics(each).two_four_legal, 1.0);
  EXPECT_EQ(compute_statistics(both).row_max, 500);
  for (const auto& [rows, cols, sparsity] : {std::tuple(6, 8, 0.5), {8, 6, 0.5}, {8, 8, 0.4}}) {
    SynthesisSpec spec{.rows = rows, .cols = cols, .sparsity = sparsity};
    spec.pattern = parse_synthesis_pattern("2:4-transposable").value();
    EXPECT_THAT(synthesize(spec).status().message(), testing::HasSubstr("multiples of 4, and a sparsity of 0.5"));
  }
}

TEST(SynthesisTest, ScatteredElementsComeOnTopOfAPattern) {
  const CsrMatrix blocks = drawn("block:32", 1000, 900, 0.9);
  const CsrMatrix both = drawn("block:32+uniform:0.002", 1000, 900, 0.9);
  EXPECT_NEAR(static_cast<double>(both.nnz() - blocks.nnz()), 0.9 * 0.002 * 1000 * 900, 60);
  for (std::int64_t row = 0; row < blocks.rows; ++row) {
    const auto row_of = [row](const CsrMatrix& matrix) {
      return std::span(matrix.column_indices).subspan(matrix.row_offsets[row], matrix.row_length(row));
    };
    ASSERT_TRUE(std::ranges::includes(row_of(both), row_of(blocks))) << row;
  }
  EXPECT_EQ(drawn("2:4+uniform:0", 100, 100, 0.5).pattern_hash(), drawn("2:4", 100, 100, 0.5).pattern_hash());
  EXPECT_EQ(drawn("block:4+uniform:1", 50, 60, 0.9).nnz(), 3000);
}

TEST(SynthesisTest, SeedsTellWeightsApart) {
  const CsrMatrix one = drawn("lognormal:0.5", 100, 100, 0.8, 1);
  EXPECT_EQ(one.pattern_hash(), drawn("lognormal:0.5", 100, 100, 0.8, 1).pattern_hash());
  EXPECT_EQ(one.value_hash(), drawn("lognormal:0.5", 100, 100, 0.8, 1).value_hash());
  EXPECT_NE(one.pattern_hash(), drawn("lognormal:0.5", 100, 100, 0.8, 2).pattern_hash());
  EXPECT_NE(one.value_hash(), drawn("lognormal:0.5", 100, 100, 0.8, 2).value_hash());
}

// Recorded once: a change means that drawn weights, and all that was measured on them, are different ones.
TEST(SynthesisTest, TheSameSeedGivesTheSameWeightEverywhere) {
  EXPECT_EQ(drawn("lognormal:0.5", 300, 200, 0.9, 42).pattern_hash(), "24e7c95355ec1502501c7590c95151b7");
  EXPECT_EQ(drawn("power:1.2", 300, 200, 0.9, 42).pattern_hash(), "0f0611409de0239ac9a40e80eba2ab61");
  EXPECT_EQ(drawn("uniform", 300, 200, 0.9, 42).value_hash(), "0bd554c034a741fbf7f84b90f9777877");
}

TEST(SynthesisTest, ValuesSurviveTheirTypeAndSumToOne) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    const CsrMatrix matrix = drawn("uniform", 400, 4000, 0.9, 3, type);
    double squares = 0;
    for (const float value : matrix.values) {
      ASSERT_EQ(rounded(value, type), value);
      ASSERT_NE(fp16_from_float(value) & 0x7FFF, 0);
      squares += static_cast<double>(value) * value;
    }
    EXPECT_NEAR(squares / 400, 1.0, 0.02);  // of a row: its product with unit inputs has variance one
    const std::string bytes = dense_bytes(matrix);
    const DenseMatrix dense{reinterpret_cast<const std::byte*>(bytes.data()), 400, 4000, type};
    const Result<CsrMatrix> back = csr_from_dense(dense);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->pattern_hash(), matrix.pattern_hash());
    EXPECT_EQ(back->values, matrix.values);
  }
}

TEST(SynthesisTest, RefusesWhatMakesNoSense) {
  for (const char* pattern : {"",
                              "odd",
                              "lognormal",
                              "lognormal:",
                              "lognormal:x",
                              "lognormal:9",
                              "lognormal:nan",
                              "power:-1",
                              "block:0",
                              "block:1.5",
                              "block:16x",
                              "block:x16",
                              "block:4x300",
                              "block:4x0",
                              "block:4x4x4",
                              "2:3",
                              "2:4+",
                              "2:4+uniform",
                              "2:4+uniform:2",
                              "+uniform:0.1",
                              "block:8+uniform:nan",
                              "block:8+2:4"}) {
    EXPECT_EQ(parse_synthesis_pattern(pattern).status().code(), StatusCode::kInvalidArgument) << pattern;
  }
  const auto code = [](const SynthesisSpec& spec) { return synthesize(spec).status().code(); };
  EXPECT_EQ(code({0, 5, 0.5}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({5, 5, 1.5}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({5, 5, std::nan("")}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1 << 26, 1 << 26, 0.5}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({8, 8, 0.4, *parse_synthesis_pattern("2:4")}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({8, 8, 0.5, {}, DataType::kUint8}), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sparsmith
