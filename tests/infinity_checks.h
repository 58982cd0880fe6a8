// What families promise whose tensor cores multiply zeros, where X holds Inf or NaN: stored weights multiply them as
// fp32 does, the others contribute nothing.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/half.h"
#include "emulator/emulated_executor.h"
#include "emulator/jit_compiler.h"
#include "tests/kernel_cases.h"

namespace sparsmith::test {

inline std::vector<std::uint16_t> bits_of(const std::vector<float>& values, DataType type) {
  std::vector<std::uint16_t> bits;
  for (const float value : values)
    bits.push_back(type == DataType::kFloat16 ? fp16_from_float(value) : bf16_from_float(value));
  return bits;
}

// Emulates `config` with Inf in columns 3, 70 and 71, NaN in column 199, of tokens of their own.
//   matrix: of at least 200 columns; its values are exact in `type`.
inline void expect_stored_weights_alone_meet_infinity(Random& random, const CsrMatrix& matrix, const Config& config,
                                                      DataType type, Layout layout) {
  const std::int64_t rows = matrix.rows;
  const std::int64_t cols = matrix.cols;
  constexpr std::int64_t kTokens = 5;
  const auto x_index = [&](std::int64_t column, std::int64_t token) {
    return static_cast<std::size_t>(layout == Layout::kTokenMajor ? token * cols + column : column * kTokens + token);
  };
  std::vector<float> x(cols * kTokens);
  for (float& each : x) each = static_cast<float>(draw_between(random, -8, 8)) / 4;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  x[x_index(3, 0)] = kInfinity;
  x[x_index(70, 1)] = -kInfinity;
  x[x_index(71, 1)] = kInfinity;
  x[x_index(199, 2)] = std::numeric_limits<float>::quiet_NaN();

  const Problem problem{{.rows = rows, .cols = cols, .type = type, .layout = layout}, kTokens, typical_device(90)};
  const Family& tested = *family(config.family);
  const auto packed = tested.pack(config, problem, matrix);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  const auto candidate = tested.generate(config, problem, *packed);
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
  std::vector<std::uint16_t> y(rows * kTokens);
  bindings.y = upload(std::as_bytes(std::span(y)));
  const bool token_major = layout == Layout::kTokenMajor;
  bindings.variables = {
      .n = kTokens, .ldx = token_major ? cols : kTokens, .ldy = token_major ? rows : kTokens, .ldr = 0};
  const auto workspace = candidate->plan.workspace_bytes.evaluate(bindings.variables);
  ASSERT_TRUE(workspace.ok()) << workspace.status().to_string();
  bindings.workspace = upload(std::vector<std::byte>(static_cast<std::size_t>(*workspace)));
  const Status ran = (*executor)->run(candidate->plan, bindings);
  ASSERT_TRUE(ran.ok()) << ran.to_string();
  ASSERT_TRUE((*executor)->read(std::as_writable_bytes(std::span(y)), bindings.y).ok());

  int infinite = 0;
  int finite = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t token = 0; token < kTokens; ++token) {
      float expected = 0;
      for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i)
        expected += matrix.values[i] * x[x_index(matrix.column_indices[i], token)];
      const std::uint16_t bits = y[static_cast<std::size_t>(token_major ? token * rows + row : row * kTokens + token)];
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

}  // namespace sparsmith::test
