#include "tuner/reference_kernel.h"

#include <gtest/gtest.h>

#include "tuner/kernel_compiler.h"

namespace sparsmith {
namespace {

// What it computes is tested on the emulator and on a GPU, in tests/.
TEST(ReferenceKernelTest, CompilesForEachTypeAndArchitecture) {
  const auto compiler = KernelCompiler::open();
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    const auto source = reference_kernel(type);
    ASSERT_TRUE(source.ok()) << source.status().to_string();
    for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
      const auto compiled = (*compiler)->compile(*source, architecture);
      ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
      EXPECT_EQ(compiled->figures.spill_store_bytes, 0);
      EXPECT_EQ(compiled->figures.stack_bytes, 0);
    }
  }
}

}  // namespace
}  // namespace sparsmith
