// Compiles many kernels at once, for tests.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel_for.h"
#include "tuner/compile/kernel_compiler.h"

namespace sparsmith {

// By name, on `threads` (0: one a core); a failure is that kernel's alone. Kernels of one name are compiled once.
inline std::map<std::string, Result<CompiledKernel>> compile_all(const KernelCompiler& compiler,
                                                                 std::span<const KernelSource> kernels,
                                                                 const std::string& architecture, int threads = 0) {
  std::map<std::string, const KernelSource*> by_name;
  for (const KernelSource& kernel : kernels) by_name.emplace(kernel.name, &kernel);
  std::vector<const KernelSource*> queue;
  for (const auto& [name, kernel] : by_name) queue.push_back(kernel);
  std::map<std::string, Result<CompiledKernel>> results;
  std::mutex mutex;
  const auto compile_one = [&](std::int64_t i) {
    Result<CompiledKernel> result = compiler.compile(*queue[i], architecture);
    const std::lock_guard lock(mutex);
    results.emplace(queue[i]->name, std::move(result));
  };
  parallel_each(std::ssize(queue), compile_one, 1, threads);
  return results;
}

}  // namespace sparsmith
