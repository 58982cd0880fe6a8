#include "tuner/compile/compiler_calls.h"

#include <utility>

#include "tuner/process/call_message.h"

namespace sparsmith {
namespace {

Result<std::string> answer(const KernelCompiler& compiler, const VersionCall&) { return compiler.version(); }
Result<CompiledKernel> answer(const KernelCompiler& compiler, const CompileCall& call) {
  return compiler.compile(*call.kernel, call.architecture);
}
Result<std::string> answer(const KernelCompiler& compiler, const PtxCall& call) {
  return compiler.ptx(*call.kernel, call.architecture);
}

Result<CompilerReply> reply_to(const Result<std::unique_ptr<KernelCompiler>>& compiler, Message message) {
  SPARSMITH_RETURN_IF_ERROR(compiler.status());
  CompilerCall call;
  SPARSMITH_RETURN_IF_ERROR(decode_call(std::move(message), call));
  return answer_call<CompilerReply>(call, [&](const auto& typed) { return answer(**compiler, typed); });
}

}  // namespace

int serve_compiler(MessageStream stream, const Result<std::unique_ptr<KernelCompiler>>& compiler) {
  return serve_parent(stream, "compiler", [&](Message message) {
    const Result<CompilerReply> reply = reply_to(compiler, std::move(message));
    return stream.send(encode_reply(reply));
  });
}

}  // namespace sparsmith
