#include "tuner/compiler_server.h"

#include <utility>

#include "tuner/compiler_protocol.h"
#include "tuner/serve_parent.h"

namespace sparsmith {
namespace {

CompilerReply answer(const KernelCompiler& compiler, const VersionRequest&) { return VersionReply{compiler.version()}; }

CompilerReply answer(const KernelCompiler& compiler, const CompileRequest& request) {
  auto compiled = compiler.compile(request.kernel, request.architecture);
  if (!compiled.ok()) return compiled.status();
  return *std::move(compiled);
}

CompilerReply answer(const KernelCompiler& compiler, const PtxRequest& request) {
  auto ptx = compiler.ptx(request.kernel, request.architecture);
  if (!ptx.ok()) return ptx.status();
  return PtxReply{*std::move(ptx)};
}

CompilerReply reply_to(const Result<std::unique_ptr<KernelCompiler>>& compiler, Message message) {
  if (!compiler.ok()) return compiler.status();
  const Result<CompilerRequest> request = decode_compiler_request(std::move(message));
  if (!request.ok()) return request.status();
  return std::visit([&](const auto& typed) { return answer(**compiler, typed); }, *request);
}

}  // namespace

int serve_compiler(MessageStream stream, const Result<std::unique_ptr<KernelCompiler>>& compiler) {
  return serve_parent(stream, "compiler", [&](Message message) {
    const CompilerReply reply = reply_to(compiler, std::move(message));
    return stream.send(encode_compiler_reply(reply));
  });
}

}  // namespace sparsmith
