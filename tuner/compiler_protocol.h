// What a parent asks its compiler program, and what it is answered, as messages.
//
// Encoding a request views the kernel's source, and encoding a reply the binary; decode copies them.
#pragma once

#include <string>
#include <variant>

#include "generator/candidate.h"
#include "tuner/kernel_compiler.h"
#include "tuner/message.h"

namespace sparsmith {

struct VersionRequest {};
// Of the kernel there are name, source and the architecture that it is for.
struct CompileRequest {
  KernelSource kernel;
  std::string architecture;
};
struct PtxRequest {
  KernelSource kernel;
  std::string architecture;
};
using CompilerRequest = std::variant<VersionRequest, CompileRequest, PtxRequest>;

OutgoingMessage encode_version_request();
OutgoingMessage encode_compile_request(const KernelSource& kernel, const std::string& architecture);
OutgoingMessage encode_ptx_request(const KernelSource& kernel, const std::string& architecture);
// Error: kInvalidInput, with what is wrong.
Result<CompilerRequest> decode_compiler_request(Message message);

struct VersionReply {
  std::string version;
};
struct PtxReply {
  std::string ptx;
};
// The Status is what is wrong with the kernel, or with the compiler; never ok.
using CompilerReply = std::variant<Status, VersionReply, CompiledKernel, PtxReply>;

OutgoingMessage encode_compiler_reply(const CompilerReply& reply);
// Error: kInvalidInput when the message is no reply.
Result<CompilerReply> decode_compiler_reply(Message message);

}  // namespace sparsmith
