// Runs on the fake driver.
#include "tuner/vendor/vendor.h"

#include <gtest/gtest.h>

#include "tests/support/fake_cuda_driver.h"
#include "tests/support/sample_weight.h"

namespace sparsmith {
namespace {

// Outputs that stand in Y as its layout says are right, and poisoned ones are not.
TEST(VendorProblemTest, BothLayoutsHoldTheWholeProblem) {
  fake_cuda() = FakeCudaState();
  const auto executor = GpuExecutor::create(0);
  ASSERT_TRUE(executor.ok()) << executor.status().to_string();
  const CsrMatrix matrix = sample_weight(20, 30, 0.3, 1);
  ReferenceProblem problem(matrix, sample_spec(matrix), {.tokens = 5, .padding = 3});
  problem.set_sums(problem.compute_sums());
  const auto vendor = VendorProblem::create(**executor, problem, nullptr);
  ASSERT_TRUE(vendor.ok()) << vendor.status().to_string();
  for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
    const bool token_major = layout == Layout::kTokenMajor;
    const auto found = (*vendor)->activations(layout);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ((*found)->x.bytes(), 30U * 5 * 4);
    ASSERT_EQ((*found)->y.bytes(), 20U * 5 * 4);
    ElementBuffer x(DataType::kFloat32, 30 * 5);
    ASSERT_TRUE((*executor)->read(x.bytes(), (*found)->x.address()).ok());
    EXPECT_EQ(x.get(token_major ? 2 * 30 + 7 : 7 * 5 + 2), problem.x().get(problem.x_index(7, 2)));
    ElementBuffer y(DataType::kFloat32, 20 * 5);
    for (int row = 0; row < 20; ++row) {
      for (int token = 0; token < 5; ++token)
        y.set(token_major ? token * 20 + row : row * 5 + token,
              static_cast<float>(problem.expected_values()[row * 5 + token]));
    }
    ASSERT_TRUE((*executor)->write((*found)->y.address(), y.bytes()).ok());
    EXPECT_TRUE((*vendor)->verify(layout).value().ok);
    ASSERT_TRUE((*vendor)->poison(layout).ok());
    EXPECT_FALSE((*vendor)->verify(layout).value().ok);
  }
}

}  // namespace
}  // namespace sparsmith
