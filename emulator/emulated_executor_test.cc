// The executor's own duties: memory seen from the host, plans, and what it says of itself.
#include "emulator/emulated_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/kernel_bench.h"

namespace sparsmith {
namespace {

using testing::HasSubstr;

const char* const kCountUp = R"(
extern "C" __global__ void __launch_bounds__(32) test(int* a) {
  const int block = (block_index_z() * grid_size_y() + block_index_y()) * grid_size_x() + block_index_x();
  a[block * 32 + thread_index()] = block;
})";

TEST(EmulatedExecutorTest, SaysWhatItIs) {
  EmulatorOptions options;
  options.compute_capability = 80;
  KernelBench bench(options);
  const DeviceProperties& properties = bench.executor().properties();
  EXPECT_EQ(properties.name, "emulator");
  EXPECT_TRUE(properties.is_emulator);
  EXPECT_EQ(properties.compute_capability, 80);
  EXPECT_GT(properties.shared_bytes_per_block, 100 * 1024);
}

TEST(EmulatedExecutorTest, MemoryIsAlignedAndFilled) {
  KernelBench bench;
  Executor& executor = bench.executor();
  for (const std::size_t bytes : {1U, 255U, 256U, 100000U}) {
    const Result<DeviceAddress> address = executor.allocate(bytes);
    ASSERT_TRUE(address.ok());
    EXPECT_EQ(*address % 256, 0U);
    std::vector<std::byte> contents(bytes);
    ASSERT_TRUE(executor.read(contents, *address).ok());
    EXPECT_THAT(contents, testing::Each(std::byte{0xFF}));
    ASSERT_TRUE(executor.fill(*address, std::byte{7}, bytes).ok());
    ASSERT_TRUE(executor.read(contents, *address).ok());
    EXPECT_THAT(contents, testing::Each(std::byte{7}));
    ASSERT_TRUE(executor.free(*address).ok());
    EXPECT_EQ(executor.free(*address).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(executor.read(contents, *address).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(executor.free(0).ok());
}

TEST(EmulatedExecutorTest, HostAccessesStayWithinOneAllocation) {
  KernelBench bench;
  Executor& executor = bench.executor();
  const DeviceAddress address = *executor.allocate(100);
  std::vector<std::byte> contents(101);
  EXPECT_EQ(executor.write(address, contents).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(executor.read(contents, address).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(executor.fill(address + 1, std::byte{0}, 100).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(executor.fill(~DeviceAddress{0}, std::byte{0}, 100).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(executor.write(address + 40, std::span(contents).first(60)).ok());
}

TEST(EmulatedExecutorTest, MemoryHasAnEnd) {
  EmulatorOptions options;
  options.memory_bytes = 1 << 20;
  KernelBench bench(options);
  Executor& executor = bench.executor();
  EXPECT_EQ(executor.allocate((1 << 20) + 1).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(executor.allocate(~std::size_t{0}).status().code(), StatusCode::kOutOfMemory);
  const Result<DeviceAddress> most = executor.allocate(1 << 20);
  ASSERT_TRUE(most.ok());
  EXPECT_EQ(executor.allocate(1).status().code(), StatusCode::kOutOfMemory);
  ASSERT_TRUE(executor.free(*most).ok());
  EXPECT_TRUE(executor.allocate(1 << 20).ok());
}

TEST(EmulatedExecutorTest, GridsHaveThreeDimensions) {
  KernelBench bench;
  const int out = bench.add_unwritten<int>(2 * 3 * 4 * 32);
  ASSERT_TRUE(bench.run(kCountUp, 1, 32).ok());
  PlanStep step;
  step.kernel = "test";
  step.grid = {2, 3, 4};
  step.block = {32, 1, 1};
  step.arguments = bench.arguments();
  LaunchPlan plan;
  plan.steps = {step};
  const Status status = bench.executor().run(plan, bench.bindings());
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::vector<int> result = bench.read<int>(out, 2 * 3 * 4 * 32);
  for (int i = 0; i < 2 * 3 * 4 * 32; ++i) EXPECT_EQ(result[i], i / 32);
}

TEST(EmulatedExecutorTest, PlansBindEveryKindOfArgument) {
  KernelBench bench;
  Executor& executor = bench.executor();
  LaunchBindings bindings;
  const auto zeroed = [&] {
    const DeviceAddress address = *executor.allocate(256);
    EXPECT_TRUE(executor.fill(address, std::byte{0}, 256).ok());
    return address;
  };
  for (const char* name : {"x", "y", "bias", "residual"}) bindings.operands.set(name, zeroed());
  bindings.workspace = zeroed();
  bindings.packed = {{"values", *executor.allocate(256)}};
  bindings.scalars = {{"alpha", 2.5F}, {"beta", -1.0F}};
  const Facts facts = {{"ten", 10}};
  bindings.variables = {.n = 3, .strides = {{"x", 1000}}, .facts = &facts};
  KernelImage image;
  image.name = "test";
  image.source = kernel_text(R"(
extern "C" __global__ void test(float* values, float* x, float* y, float* bias, float* residual, float* workspace,
                                int n, long long wide, float alpha, float beta) {
  x[0] = n;
  y[0] = wide;
  bias[0] = alpha;
  residual[0] = beta;
  values[0] = workspace[0];
  workspace[0] = 5;
})");
  ASSERT_TRUE(executor.load(image).ok());
  ASSERT_TRUE(executor.load(image).ok()) << "loading twice does nothing";
  using Kind = PlanArgument::Kind;
  PlanStep zero;
  zero.kind = PlanStep::Kind::kZero;
  zero.zero_offset = 64;
  zero.zero_bytes = *IntegerExpression::parse("n * 4");
  PlanStep skipped;
  skipped.kernel = "test";
  skipped.grid = {*IntegerExpression::parse("n - 3"), 1, 1};
  PlanStep launch;
  launch.kernel = "test";
  launch.arguments = {{Kind::kPacked, "values", 0},
                      operand("x"),
                      operand("y"),
                      operand("bias"),
                      operand("residual"),
                      {Kind::kWorkspace, "", 64},
                      {Kind::kInt32, "", *IntegerExpression::parse("n + 1")},
                      {Kind::kInt64, "", *IntegerExpression::parse("ld.x * fact.ten")},
                      scalar("alpha"),
                      scalar("beta")};
  LaunchPlan plan;
  plan.steps = {zero, skipped, launch};
  ASSERT_TRUE(executor.fill(bindings.workspace, std::byte{0x40}, 256).ok());
  const Status status = executor.run(plan, bindings);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const auto value_at = [&](DeviceAddress address) {
    float value = 0;
    EXPECT_TRUE(executor.read(std::as_writable_bytes(std::span(&value, 1)), address).ok());
    return value;
  };
  EXPECT_EQ(value_at(*bindings.operands.find("x")), 4.0F);
  EXPECT_EQ(value_at(*bindings.operands.find("y")), 10000.0F);
  EXPECT_EQ(value_at(*bindings.operands.find("bias")), 2.5F);
  EXPECT_EQ(value_at(*bindings.operands.find("residual")), -1.0F);
  EXPECT_EQ(value_at(bindings.packed[0].address), 0.0F);
  EXPECT_EQ(value_at(bindings.workspace + 64), 5.0F);
}

TEST(EmulatedExecutorTest, RefusesLaunchesThatTheDeviceWouldRefuse) {
  KernelBench bench;
  bench.add_unwritten<int>(32);
  EXPECT_THAT(bench.run(kCountUp, 1, 1025).message(), HasSubstr("a block of 1025 x 1 x 1 threads"));
  EXPECT_THAT(bench.run(kCountUp, 1, 0).message(), HasSubstr("a block of 0 x 1 x 1 threads"));
  EXPECT_THAT(bench.run(kCountUp, -1, 32).message(), HasSubstr("a grid of -1 x 1 x 1 blocks"));
  EXPECT_THAT(bench.run(kCountUp, 1, 32, 1 << 20).message(), HasSubstr("bytes of shared memory"));
  LaunchPlan plan;
  plan.steps.resize(1);
  plan.steps[0].kernel = "unknown";
  EXPECT_THAT(bench.executor().run(plan, {}).message(), HasSubstr("kernel unknown was not loaded"));
  plan.steps[0].kernel = "test";
  plan.steps[0].arguments = bench.arguments();
  for (const int dimension : {1, 2}) {
    plan.steps[0].block = {32, 1, 1};
    plan.steps[0].block[dimension] = 2;
    EXPECT_THAT(bench.executor().run(plan, bench.bindings()).message(), HasSubstr("blocks of one dimension"));
  }
}

TEST(EmulatedExecutorTest, ExecutorsDoNotSeeEachOther) {
  KernelBench first;
  KernelBench second;
  const int a = first.add_unwritten<int>(32);
  const int b = second.add_unwritten<int>(32);
  ASSERT_TRUE(first.run(kCountUp, 1, 32).ok());
  ASSERT_TRUE(second.run(kCountUp, 1, 32).ok());
  EXPECT_EQ(first.read<int>(a, 32), second.read<int>(b, 32));
}

}  // namespace
}  // namespace sparsmith
