#include "tuner/verify/reference_kernel.h"

#include <gtest/gtest.h>

#include "tuner/compile/kernel_compiler.h"
#include "tuner/verify/device_problem.h"

namespace sparsmith {
namespace {

// What they compute is tested on the emulator and on a GPU, in tests/.
TEST(ReferenceKernelTest, ItAndTheComparisonCompileForEachTypeAndArchitecture) {
  const auto compiler = KernelCompiler::open();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (const auto& source :
         {reference_kernel({.type = type}), reference_kernel({.type = type, .kind = OperatorKind::kSddmm}),
          output_comparison_kernel(type)}) {
      ASSERT_TRUE(source.ok()) << source.status().to_string();
      for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
        const auto compiled = (*compiler)->compile(*source, architecture);
        ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
        EXPECT_EQ(compiled->figures.spill_store_bytes, 0);
        EXPECT_EQ(compiled->figures.stack_bytes, 0);
      }
    }
  }
}

}  // namespace
}  // namespace sparsmith
