// A CpuKernelCompiler with clang 19 inside this process: some milliseconds per kernel, and no process to start.
//
// The library emulator_jit includes clang and LLVM, so only programs for emulation link it.
#pragma once

#include <memory>

#include "emulator/cpu_kernel_compiler.h"

namespace sparsmith {

// Kernels may outlive the compiler. One compilation runs at a time; others wait for it.
Result<std::unique_ptr<CpuKernelCompiler>> make_jit_compiler();

}  // namespace sparsmith
