// The calls of the compiler program and their replies.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "generator/candidate.h"
#include "tuner/compile/kernel_compiler.h"
#include "tuner/process/call.h"
#include "tuner/process/message.h"

namespace sparsmith {

SPARSMITH_FIELDS(PtxasFigures, registers, spill_store_bytes, spill_load_bytes, stack_bytes, static_shared_bytes)

void fields(auto& f, CompiledKernel& kernel) {
  f("name", kernel.name);
  f("figures", kernel.figures);
  f.blob(kernel.cubin);
}

// The parts of a kernel that the compiler needs. The source is sent as a blob: JSON would need a search for characters
// to escape.
void fields(auto& f, KernelSource& kernel) {
  f("name", kernel.name);
  f("architecture", kernel.architecture);
  f.blob(kernel.source);
}

struct VersionCall {
  static constexpr const char* kName = "version";
  using Reply = std::string;
  void fields(auto&) {}
};

// A kernel and its target architecture.
struct KernelCall {
  Payload<KernelSource> kernel;
  std::string architecture;
  void fields(auto& f) {
    f("kernel", kernel);
    f("architecture", architecture);
  }
};

struct CompileCall : KernelCall {
  static constexpr const char* kName = "compile";
  using Reply = CompiledKernel;
};

struct PtxCall : KernelCall {
  static constexpr const char* kName = "ptx";
  using Reply = std::string;
};

using CompilerCall = std::variant<VersionCall, CompileCall, PtxCall>;
using CompilerReply = std::variant<std::string, CompiledKernel>;

// The main loop of the compiler program. Answers the requests on `stream` one after another, until the other end closes
// it or dies. Returns the process's exit code. When `compiler` is an error, every answer is this error.
int serve_compiler(MessageStream stream, const Result<std::unique_ptr<KernelCompiler>>& compiler);

}  // namespace sparsmith
