#include "python/native/host_linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "base/half.h"

namespace sparsmith::torch {
namespace {

std::vector<float> drawn(std::size_t count, std::mt19937_64& random) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 17) / 8.0F - 1.0F;
  return values;
}

// Multiples of 1/8 of few digits: sums are exact in any order.
TEST(HostLinearTest, IsTheProductOfTheDenseWeight) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  CsrMatrix weight;
  weight.rows = 37;
  weight.cols = 53;
  weight.row_offsets.assign(1, 0);
  for (std::int64_t m = 0; m < weight.rows; ++m) {
    for (std::uint32_t k = 0; k < weight.cols; ++k) {
      if (random() % 4 != 0 || m == 5) continue;  // row 5 is empty
      weight.column_indices.push_back(k);
      weight.values.push_back(static_cast<float>(1 + random() % 8) / 8.0F);
    }
    weight.row_offsets.push_back(weight.nnz());
  }
  std::vector<float> dense(static_cast<std::size_t>(weight.rows * weight.cols), -1);
  write_dense(weight, DataType::kFloat32, dense.data());
  for (const std::int64_t tokens : {1, 64, 131}) {
    const std::int64_t ldx = weight.cols + 3;
    const std::int64_t ldr = weight.rows + 1;
    const std::vector<float> x = drawn(static_cast<std::size_t>(tokens * ldx), random);
    const std::vector<float> bias = drawn(static_cast<std::size_t>(weight.rows), random);
    const std::vector<float> residual = drawn(static_cast<std::size_t>(tokens * ldr), random);
    for (const Activation activation :
         {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kSilu}) {
      const bool whole = activation != Activation::kSilu;  // the last one without the other operands
      OperatorSpec spec{.rows = weight.rows, .cols = weight.cols};
      spec.epilogue = {.activation = activation, .bias = whole, .residual = whole};
      std::vector<float> y(static_cast<std::size_t>(tokens * weight.rows), -1);
      host_linear(weight, spec, tokens, {x.data(), ldx}, whole ? bias.data() : nullptr,
                  {whole ? residual.data() : nullptr, ldr}, y.data());
      for (std::int64_t n = 0; n < tokens; ++n) {
        for (std::int64_t m = 0; m < weight.rows; ++m) {
          double sum = 0;
          for (std::int64_t k = 0; k < weight.cols; ++k) sum += dense[m * weight.cols + k] * x[n * ldx + k];
          if (whole) sum += bias[m];
          if (activation == Activation::kRelu) sum = std::max(sum, 0.0);
          if (activation == Activation::kGelu) sum = sum * 0.5 * (1 + std::erf(sum / std::sqrt(2.0)));
          if (activation == Activation::kGeluTanh)
            sum = sum * 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (sum + 0.044715 * sum * sum * sum)));
          if (activation == Activation::kSilu) sum = sum / (1 + std::exp(-sum));
          if (whole) sum += residual[n * ldr + m];
          ASSERT_NEAR(y[n * weight.rows + m], sum, 1e-5) << n << ' ' << m << ' ' << activation_name(activation);
        }
      }
    }
  }
}

TEST(HostLinearTest, SamplesTheProductOfTheGradient) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const SparsityPattern pattern{3, 5, {0, 2, 2, 4}, {0, 3, 1, 4}};
  for (const std::int64_t tokens : {0, 1, 70}) {
    const std::vector<float> x = drawn(static_cast<std::size_t>(tokens * 6), random);
    const std::vector<float> dy = drawn(static_cast<std::size_t>(tokens * 4), random);
    std::vector<float> values(4, -1);
    host_sampled(pattern, DataType::kFloat32, tokens, {x.data(), 6}, {dy.data(), 4}, values.data());
    const std::int64_t rows[] = {0, 0, 2, 2};
    for (std::int64_t i = 0; i < 4; ++i) {
      double sum = 0;
      for (std::int64_t n = 0; n < tokens; ++n) sum += dy[n * 4 + rows[i]] * x[n * 6 + pattern.column_indices[i]];
      EXPECT_EQ(values[i], static_cast<float>(sum)) << i << ' ' << tokens;
    }
  }
}

TEST(HostLinearTest, RoundsNewValues) {
  const std::vector<float> values = {1, 2049, -0.0F};
  EXPECT_EQ(rounded_values(values.data(), 3, DataType::kFloat32, DataType::kFloat16), (std::vector<float>{1, 2048, 0}));
}

TEST(HostLinearTest, GatesTheSecondHalfOfTheRows) {
  CsrMatrix weight;
  weight.rows = 4;
  weight.cols = 2;
  weight.row_offsets = {0, 1, 2, 3, 5};
  weight.column_indices = {0, 1, 1, 0, 1};
  weight.values = {1, -2, 3, 4, 5};
  const std::vector<float> x = {1, 2, -3, 1};
  const std::vector<float> bias = {0.5F, 6, 0, -1};
  std::vector<float> y(4, -1);
  OperatorSpec spec{.rows = 4, .cols = 2, .epilogue = {.activation = Activation::kRelu, .bias = true, .gated = true}};
  host_linear(weight, spec, 2, {x.data(), 2}, bias.data(), {}, y.data());
  // Gates: 1.5 and 2 of the first token, 0 and 4 of the second one.
  EXPECT_EQ(y, (std::vector<float>{1.5F * 6, 2 * 13, 0, 4 * -8}));
}

TEST(HostLinearTest, RoundsToTheTypeOnce) {
  CsrMatrix weight;
  weight.rows = 1;
  weight.cols = 3;
  weight.row_offsets = {0, 3};
  weight.column_indices = {0, 1, 2};
  weight.values = {1, 1, -1};
  // 2048 + 1 is no fp16; the sum 2048 + 1 - 2048 is 1 where sums are kept in fp32.
  const std::vector<std::uint16_t> x = {fp16_from_float(2048), fp16_from_float(1), fp16_from_float(2048)};
  std::uint16_t y = 0;
  const OperatorSpec spec{.rows = 1, .cols = 3, .type = DataType::kFloat16};
  host_linear(weight, spec, 1, {x.data(), 3}, nullptr, {}, &y);
  EXPECT_EQ(float_from_fp16(y), 1.0F);
}

}  // namespace
}  // namespace sparsmith::torch
