#include "emulator/cpu_kernel_compiler.h"
#include "tests/support/kernel_bench.h"

namespace sparsmith {

std::shared_ptr<CpuKernelCompiler> compiler_under_test() {
  static const std::shared_ptr<CpuKernelCompiler> compiler = [] {
    Result<std::unique_ptr<CpuKernelCompiler>> made = make_system_compiler();
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return std::shared_ptr<CpuKernelCompiler>(std::move(made).value());
  }();
  return compiler;
}

}  // namespace sparsmith
