// Makes a kernel's emitted text callable on the CPU. There are two implementations: the system's compiler, started as a
// process, and clang inside this process (jit_compiler.h, in a library of its own because it needs LLVM).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "sparsmith/status.h"

namespace sparsmith {

// A kernel in executable memory, which is freed with the object. Any thread that runs emulated blocks may call it.
class CpuKernel {
 public:
  // Runs one thread of the kernel; arguments[i] is the address of the value of parameter i.
  using Entry = void (*)(const void* const* arguments);

  virtual ~CpuKernel() = default;
  Entry entry() const { return entry_; }
  // Bytes of each parameter, in order.
  std::span<const int> parameter_bytes() const { return parameter_bytes_; }

 protected:
  // `parameters`: the bytes of each parameter, then a 0.
  void set_code(Entry code, const int* parameters) {
    entry_ = code;
    std::size_t count = 0;
    while (parameters[count] != 0) ++count;
    parameter_bytes_ = {parameters, count};
  }

 private:
  Entry entry_ = nullptr;
  std::span<const int> parameter_bytes_;
};

// Thread-safe.
class CpuKernelCompiler {
 public:
  virtual ~CpuKernelCompiler() = default;

  // "clang 19 in process", "/usr/bin/c++": for messages.
  virtual std::string name() const = 0;

  // `source` is a self-contained kernel text with the entry point `kernel`.
  // Error: kInvalidInput with the compiler's messages, whose line numbers are those of `source`; kUnsupported if there
  // is no compiler to start.
  virtual Result<std::unique_ptr<CpuKernel>> compile(const std::string& kernel, const std::string& source) = 0;
};

// Starts the system's compiler and loads the result. Takes some tenths of a second per kernel; needs only g++ or
// clang++ at run time. `program`: the compiler to start; empty: $CXX, or the first of c++, g++ and clang++ in $PATH.
// Error: kUnsupported if there is none.
Result<std::unique_ptr<CpuKernelCompiler>> make_system_compiler(const std::string& program = "");

}  // namespace sparsmith
