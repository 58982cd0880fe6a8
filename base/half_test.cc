#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#if defined(__FLT16_MANT_DIG__)
#define HAS_COMPILER_FP16 1
#endif

namespace sparsmith {
namespace {

TEST(HalfTest, EveryFp16SurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = float_from_fp16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_from_fp16(fp16_from_float(value))));
    } else {
      EXPECT_EQ(fp16_from_float(value), half) << bits;
    }
  }
}

TEST(HalfTest, Fp16RoundsTiesToEven) {
  EXPECT_EQ(fp16_from_float(2049.0F), fp16_from_float(2048.0F));
  EXPECT_EQ(fp16_from_float(2051.0F), fp16_from_float(2052.0F));
  EXPECT_EQ(fp16_from_float(65519.99F), 0x7BFF);
  EXPECT_EQ(fp16_from_float(65520.0F), 0x7C00);
  EXPECT_EQ(fp16_from_float(0x1p-25F), 0);  // a tie between 0 and the smallest denormal
  EXPECT_EQ(fp16_from_float(0x1.01p-25F), 1);
  EXPECT_EQ(fp16_from_float(-0.0F), 0x8000);
}

#ifdef HAS_COMPILER_FP16
// The compiler's own conversion is an independent oracle: all floats that share the upper 20 bits' patterns.
TEST(HalfTest, AgreesWithTheCompiler) {
  for (std::uint64_t bits = 0; bits < 0x100000000ULL; bits += 0x3FF) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(value)) continue;
    const auto expected = std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
    ASSERT_EQ(fp16_from_float(value), expected) << std::hex << bits;
  }
}
#endif

TEST(HalfTest, Bf16RoundsTiesToEven) {
  EXPECT_EQ(bf16_from_float(1.0F), 0x3F80);
  EXPECT_EQ(bf16_from_float(std::bit_cast<float>(0x3F808000U)), 0x3F80);
  EXPECT_EQ(bf16_from_float(std::bit_cast<float>(0x3F818000U)), 0x3F82);
  EXPECT_EQ(bf16_from_float(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace sparsmith
