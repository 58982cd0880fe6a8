// Makes a kernel's emitted text callable on the CPU. Two ways stand behind this interface: the compiler of the
// system, started as a process (system_compiler.h), and clang inside this process (jit_compiler.h, a library of its
// own, because it needs LLVM).
#pragma once

#include <memory>
#include <span>
#include <string>

#include "sparsmith/status.h"

namespace sparsmith {

// A kernel in executable memory, which goes with the object. Safe to call from any thread that runs emulated blocks.
class CpuKernel {
 public:
  // Runs one thread of the kernel; arguments[i] is the address of the value of parameter i.
  using Entry = void (*)(const void* const* arguments);

  virtual ~CpuKernel() = default;
  virtual Entry entry() const = 0;
  // Bytes of each parameter, in order.
  virtual std::span<const int> parameter_bytes() const = 0;
};

// Thread-safe.
class CpuKernelCompiler {
 public:
  virtual ~CpuKernelCompiler() = default;

  // "clang 19 in process", "/usr/bin/c++": for messages.
  virtual std::string name() const = 0;

  // `source` is a self-contained kernel text with the entry point `kernel`.
  // Error: kInvalidInput with the compiler's messages, whose lines are those of `source`; kUnsupported where there is
  // no compiler to start.
  virtual Result<std::unique_ptr<CpuKernel>> compile(const std::string& kernel, const std::string& source) = 0;
};

}  // namespace sparsmith
