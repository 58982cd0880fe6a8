// CpuKernelCompiler that is clang 19 inside this process: some milliseconds a kernel, and nothing to start.
//
// The library emulator_jit brings clang and LLVM with it, so only programs that are given over to emulation link it.
#pragma once

#include <memory>

#include "emulator/cpu_kernel_compiler.h"

namespace sparsmith {

// Kernels may outlive the compiler. One compilation runs at a time; further ones wait for it.
Result<std::unique_ptr<CpuKernelCompiler>> make_jit_compiler();

}  // namespace sparsmith
