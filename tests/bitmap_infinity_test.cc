// What the bitmap family promises where X holds Inf or NaN: stored weights multiply them as fp32 does, the others
// contribute nothing, although tensor cores multiply zeros.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/half.h"
#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "tests/kernel_cases.h"

namespace sparsmith::test {
namespace {

using Case = std::tuple<DataType, Layout, bool, int>;  // offsets are stored; bits of a run

class BitmapInfinityTest : public testing::TestWithParam<Case> {};

std::vector<std::uint16_t> bits_of(const std::vector<float>& values, DataType type) {
  std::vector<std::uint16_t> bits;
  for (const float value : values)
    bits.push_back(type == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value));
  return bits;
}

TEST_P(BitmapInfinityTest, StoredWeightsMeetItAndOthersDoNot) {
  const auto& [type, layout, stored_offsets, run_bits] = GetParam();
  Random random(17);
  constexpr std::int64_t kRows = 37;
  constexpr std::int64_t kCols = 200;
  constexpr std::int64_t kTokens = 5;
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
  const auto x_index = [layout = layout](std::int64_t column, std::int64_t token) {
    return static_cast<std::size_t>(layout == Layout::kTokenMajor ? token * kCols + column : column * kTokens + token);
  };
  std::vector<float> x(kCols * kTokens);
  for (float& each : x) each = static_cast<float>(draw_between(random, -8, 8)) / 4;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  x[x_index(3, 0)] = kInfinity;
  x[x_index(70, 1)] = -kInfinity;
  x[x_index(71, 1)] = kInfinity;
  x[x_index(199, 2)] = std::numeric_limits<float>::quiet_NaN();

  Problem problem{{.rows = kRows, .cols = kCols, .type = type, .layout = layout}, kTokens, typical_device(90)};
  const Config config{"bitmap",
                      {{"tiles", 2},
                       {"token_tiles", 1},
                       {"warps", 4},
                       {"stages", 2},
                       {"run_bits", run_bits},
                       {"stored_offsets", stored_offsets ? 1 : 0},
                       {"bulk_copies", 1},
                       {"blocks_per_sm", 1},
                       {"column_parts", 1}}};
  const Family& bitmap = *family("bitmap");
  const auto packed = bitmap.pack(config, problem, matrix);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  const auto candidate = bitmap.generate(config, problem, *packed);
  ASSERT_TRUE(candidate.ok()) << candidate.status().to_string();

  auto compiler = make_jit_compiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  auto executor = make_emulated_executor({.compiler = std::move(*compiler)});
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  for (const KernelSource& kernel : candidate->kernels) {
    const Status loaded = (*executor)->load({kernel.name, kernel.source, {}, kernel.max_shared_bytes});
    ASSERT_TRUE(loaded.ok()) << loaded.to_string();
  }
  const auto upload = [&](std::span<const std::byte> bytes) {
    const auto address = (*executor)->allocate(bytes.size());
    EXPECT_TRUE(address.ok() && (*executor)->write(*address, bytes).ok());
    return *address;
  };
  LaunchBindings bindings;
  for (const PackedArray& array : packed->arrays) bindings.packed.push_back({array.name, upload(array.bytes)});
  const std::vector<std::uint16_t> x_bits = bits_of(x, type);
  bindings.x = upload(std::as_bytes(std::span(x_bits)));
  std::vector<std::uint16_t> y(kRows * kTokens);
  bindings.y = upload(std::as_bytes(std::span(y)));
  const bool token_major = layout == Layout::kTokenMajor;
  bindings.variables = {
      .n = kTokens, .ldx = token_major ? kCols : kTokens, .ldy = token_major ? kRows : kTokens, .ldr = 0};
  const Status ran = (*executor)->run(candidate->plan, bindings);
  ASSERT_TRUE(ran.ok()) << ran.to_string();
  ASSERT_TRUE((*executor)->read(std::as_writable_bytes(std::span(y)), bindings.y).ok());

  int infinite = 0;
  int finite = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t token = 0; token < kTokens; ++token) {
      float expected = 0;
      for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i)
        expected += matrix.values[i] * x[x_index(matrix.column_indices[i], token)];
      const std::uint16_t bits = y[static_cast<std::size_t>(token_major ? token * kRows + row : row * kTokens + token)];
      const float value = type == DataType::kFloat16 ? float_from_fp16(bits) : float_from_bf16(bits);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << row << ", " << token;
      } else if (std::isinf(expected)) {
        EXPECT_EQ(value, expected) << row << ", " << token;
      } else {
        EXPECT_NEAR(value, expected, 1e-2 * (1 + std::abs(expected))) << row << ", " << token;
      }
      ++(std::isfinite(expected) ? finite : infinite);
    }
  }
  EXPECT_GT(infinite, 30);
  EXPECT_GT(finite, 100);
}

INSTANTIATE_TEST_SUITE_P(Kernels, BitmapInfinityTest,
                         testing::Combine(testing::Values(DataType::kFloat16, DataType::kBFloat16),
                                          testing::Values(Layout::kTokenMajor, Layout::kFeatureMajor), testing::Bool(),
                                          testing::Values(4, 8)));

}  // namespace
}  // namespace sparsmith::test
