// Kernels with one mistake in them, and whether the emulator's tests see it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/cpu_kernel_compiler.h"
#include "tests/kernel_cases.h"

namespace sparsmith::testing {

// The first `from` of a source replaced by `to`; the source itself when there is none.
std::string mutated(const std::string& source, const std::string& from, const std::string& to);

// Whether some of the cases of a kernel fails when the kernels of its family are so mutated.
bool caught(const std::vector<KernelCase>& cases, const std::string& from, const std::string& to,
            const std::shared_ptr<CpuKernelCompiler>& compiler);

}  // namespace sparsmith::testing
