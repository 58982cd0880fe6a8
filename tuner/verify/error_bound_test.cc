#include "tuner/verify/error_bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sparsmith {
namespace {

TEST(ErrorBoundTest, UlpsAreThoseOfTheType) {
  EXPECT_EQ(ulp(DataType::kFloat32, 1.0), 0x1p-23);
  EXPECT_EQ(ulp(DataType::kFloat32, -3.9), 0x1p-22);
  EXPECT_EQ(ulp(DataType::kFloat32, 0.0), 0x1p-149);
  EXPECT_EQ(ulp(DataType::kFloat16, 1.5), 0x1p-10);
  EXPECT_EQ(ulp(DataType::kFloat16, 1e-9), 0x1p-24);
  EXPECT_EQ(ulp(DataType::kBFloat16, 256), 2.0);
}

TEST(ErrorBoundTest, ThePlainBoundIsTheStatedOne) {
  const BoundedOutput output =
      bounded_output({.type = DataType::kFloat32}, {.sum = 2.5, .magnitude = 10, .length = 100, .alpha = 1});
  EXPECT_EQ(output.value, 2.5);
  EXPECT_NEAR(output.bound, 2 * (100 * 0x1p-24 * 10 + 0x1p-22), 1e-15);
}

TEST(ErrorBoundTest, ChainsAddWhatTheyRound) {
  const OperatorSpec fp32{.type = DataType::kFloat16};
  const OperatorSpec chains{.type = DataType::kFloat16, .accumulation = Accumulation::kFp16Chains};
  OutputTerms terms{.sum = 2.5, .magnitude = 10, .length = 100, .alpha = 0.5};
  EXPECT_EQ(bounded_output(chains, terms).value, bounded_output(fp32, terms).value);
  EXPECT_NEAR(bounded_output(chains, terms).bound - bounded_output(fp32, terms).bound,
              2 * 0.5 * (4.01 * 0x1p-11 * 10 + 100 * 0x1p-25), 1e-12);
  terms.magnitude = 65504;
  EXPECT_TRUE(std::isinf(bounded_output(chains, terms).bound));
  EXPECT_TRUE(std::isfinite(bounded_output(fp32, terms).bound));
}

TEST(ErrorBoundTest, InfinityIsRightOnlyWhereTheTypeOverflows) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(within_bound(DataType::kFloat16, {.value = 1e5, .bound = 64}, infinity));
  EXPECT_FALSE(within_bound(DataType::kFloat16, {.value = 1e5, .bound = 64}, -infinity));
  EXPECT_FALSE(within_bound(DataType::kFloat16, {.value = 1e5, .bound = 64}, 65504));
  EXPECT_FALSE(within_bound(DataType::kFloat16, {.value = 100, .bound = 1}, infinity));
  EXPECT_FALSE(within_bound(DataType::kFloat32, {.value = 1, .bound = 1}, std::nanf("")));
}

TEST(ErrorBoundTest, ValuesThatAreNotFiniteAreExpectedAsTheyAre) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  EXPECT_TRUE(within_bound(DataType::kFloat32, {.value = nan}, nan));
  EXPECT_TRUE(within_bound(DataType::kFloat16, {.value = infinity}, infinity));
  EXPECT_TRUE(within_bound(DataType::kFloat16, {.value = -infinity}, -infinity));
  for (const float wrong : {3.0F, infinity, 65504.0F}) {
    EXPECT_FALSE(within_bound(DataType::kFloat16, {.value = nan, .bound = 1}, wrong));
    EXPECT_FALSE(within_bound(DataType::kFloat16, {.value = -infinity, .bound = 1}, wrong));
  }
  EXPECT_FALSE(within_bound(DataType::kFloat16, {.value = infinity, .bound = 1}, nan));
  EXPECT_FALSE(within_bound(DataType::kFloat16, {.value = infinity, .bound = 1}, 65504));
  EXPECT_TRUE(within_bound(DataType::kFloat16, {.value = 1, .bound = infinity}, nan));

  EXPECT_EQ(bounded_output({.type = DataType::kFloat16}, {.sum = infinity, .magnitude = infinity}).value, infinity);
  EXPECT_EQ(bounded_output({.type = DataType::kFloat16}, {.sum = infinity, .magnitude = infinity}).bound, 0);
  const OperatorSpec beta{.type = DataType::kFloat16, .epilogue = {.beta = true}};
  EXPECT_TRUE(std::isnan(bounded_output(beta, {.sum = 1, .beta = -1, .old_y = nan}).value));
  EXPECT_EQ(bounded_output(beta, {.sum = 1, .beta = 0, .old_y = nan}).value, 1);
}

}  // namespace
}  // namespace sparsmith
