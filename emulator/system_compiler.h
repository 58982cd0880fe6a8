// CpuKernelCompiler that starts the compiler of the system and loads what it makes. Some tenths of a second a kernel;
// needs g++ or clang++ where it runs, and nothing else.
#pragma once

#include <memory>
#include <string>

#include "emulator/cpu_kernel_compiler.h"

namespace sparsmith {

// `program`: the compiler to start; empty: $CXX, or the first of c++, g++ and clang++ in $PATH.
// Error: kUnsupported where there is none.
Result<std::unique_ptr<CpuKernelCompiler>> make_system_compiler(const std::string& program = "");

}  // namespace sparsmith
