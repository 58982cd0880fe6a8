// What a kernel of a programmatic launch touches before it has waited for the kernels before it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/kernel_bench.h"

namespace sparsmith {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A programmatic launch of 2 blocks of 64 threads with a constant, an input x and an output y.
class ProgrammaticLaunchTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  Status run(const std::string& statements, bool programmatic = true) {
    EmulatorOptions options;
    options.schedule_seed = GetParam();
    KernelBench bench(options);
    bench.programmatic_launch = programmatic;
    bench.add(std::vector<float>(64, 1.0F));
    const auto add = [&](const char* name) {
      const auto address = bench.executor().allocate(1024);
      EXPECT_TRUE(address.ok()) << address.status().to_string();
      EXPECT_TRUE(bench.executor().fill(*address, std::byte{0}, 1024).ok());
      bench.arguments().push_back(operand(name));
      bench.bindings().operands.set(name, *address);
    };
    add("x");
    add("y");
    return bench.run(
        "extern \"C\" __global__ void __launch_bounds__(64) test(const float* constant, const float* x, float* y) {\n"
        "  launch_dependents();\n"
        "  float* shared = reinterpret_cast<float*>(shared_memory());\n"
        "  const int t = thread_index();\n"
        "  const int i = block_index_x() * 64 + t;\n" +
            statements + "\n}",
        2, 64, 256);
  }
};

TEST_P(ProgrammaticLaunchTest, WhatTouchesConstantsAloneBeforeItWaitsIsRight) {
  const Status own =
      run("const float c = load_cached(constant + t); shared[t] = c; wait_for_previous();\n"
          "y[i] = load_coherent(x + i) + c;");
  EXPECT_TRUE(own.ok()) << own.to_string();
  const Status by_barrier = run("if (t == 0) wait_for_previous(); block_barrier(); y[i] = x[i] + constant[t];");
  EXPECT_TRUE(by_barrier.ok()) << by_barrier.to_string();
  const Status by_warp = run("if (t % 32 == 3) wait_for_previous(); warp_barrier(); y[i] = x[i];");
  EXPECT_TRUE(by_warp.ok()) << by_warp.to_string();
  const Status plain = run("y[i] = x[i];", false);
  EXPECT_TRUE(plain.ok()) << plain.to_string();
}

TEST_P(ProgrammaticLaunchTest, WhatIsTouchedBeforeItWaitsIsReported) {
  EXPECT_THAT(run("const float value = x[i]; wait_for_previous(); y[i] = value;").message(),
              AllOf(HasSubstr("read of 4 bytes at x"), HasSubstr("before it has waited")));
  EXPECT_THAT(run("y[i] = constant[t]; wait_for_previous();").message(),
              AllOf(HasSubstr("write of 4 bytes at y"), HasSubstr("before it has waited")));
  EXPECT_THAT(run("if (t == 63) atomic_add(y, 1.0F); wait_for_previous();").message(),
              HasSubstr("before it has waited"));
  EXPECT_THAT(run("if (t < 32) wait_for_previous(); y[i] = 0;").message(), HasSubstr("before it has waited"));
  EXPECT_THAT(
      run("if (t == 63) async_copy<4>(shared, x); async_commit(); wait_for_previous(); async_wait<0>();").message(),
      HasSubstr("before it has waited"));
  const std::string bulk =
      "BulkBarrier* barrier = reinterpret_cast<BulkBarrier*>(shared + 32);\n"
      "if (t == 0) bulk_barrier_init(barrier);\n"
      "if (t == 0) bulk_copy(shared, FROM, 64, barrier);\n"
      "wait_for_previous(); block_barrier(); bulk_wait(barrier, 0);";
  const auto from = [&](const char* source) { return std::string(bulk).replace(bulk.find("FROM"), 4, source); };
  EXPECT_TRUE(run(from("constant")).ok());
  EXPECT_THAT(run(from("x")).message(), HasSubstr("before it has waited"));
  EXPECT_THAT(run("shared[t] = constant[t + 64]; wait_for_previous();").message(), HasSubstr("out of bounds"));
}

TEST_P(ProgrammaticLaunchTest, ABlockThatEndsWithoutWaitingIsReported) {
  EXPECT_THAT(run("if (block_index_x() == 1) return; wait_for_previous(); y[i] = 1;").message(),
              AllOf(HasSubstr("block (1, 0, 0)"), HasSubstr("ends without having waited")));
}

INSTANTIATE_TEST_SUITE_P(Orders, ProgrammaticLaunchTest, testing::Values(0, 1, 2));

}  // namespace
}  // namespace sparsmith
