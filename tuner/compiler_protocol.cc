#include "tuner/compiler_protocol.h"

#include <span>
#include <utility>

#include "tuner/message_json.h"

namespace sparsmith {
namespace {

std::span<const std::byte> view(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> only_blob(Message& message) {
  if (message.blobs.size() != 1) refuse("one blob was expected");
  return std::move(message.blobs.front());
}

void expect_no_blob(const Message& message) {
  if (!message.blobs.empty()) refuse("no blob was expected");
}

// The source goes as a blob: as JSON it would be searched for what has to be escaped.
OutgoingMessage kernel_request(const char* call, const KernelSource& kernel, const std::string& architecture) {
  return {.header = dumped({{"call", call},
                            {"name", kernel.name},
                            {"kernel_architecture", kernel.architecture},
                            {"architecture", architecture}}),
          .blobs = {view(kernel.source)}};
}

template <class Request>
Request kernel_request_of(const json& header, Message& message) {
  Request request;
  request.kernel.name = header.at("name");
  request.kernel.architecture = header.at("kernel_architecture");
  request.kernel.source = text_of(only_blob(message));
  request.architecture = header.at("architecture");
  return request;
}

CompilerRequest request_of(const json& header, Message& message) {
  const auto& call = header.at("call").get_ref<const std::string&>();
  if (call == "compile") return kernel_request_of<CompileRequest>(header, message);
  if (call == "ptx") return kernel_request_of<PtxRequest>(header, message);
  if (call != "version") refuse("no such call: " + call);
  expect_no_blob(message);
  return VersionRequest{};
}

json to_json(const PtxasFigures& figures) {
  return {{"registers", figures.registers},
          {"spill_store_bytes", figures.spill_store_bytes},
          {"spill_load_bytes", figures.spill_load_bytes},
          {"stack_bytes", figures.stack_bytes},
          {"static_shared_bytes", figures.static_shared_bytes}};
}

PtxasFigures figures_of(const json& value) {
  return {.registers = small_integer_of(value.at("registers")),
          .spill_store_bytes = integer_of(value.at("spill_store_bytes")),
          .spill_load_bytes = integer_of(value.at("spill_load_bytes")),
          .stack_bytes = integer_of(value.at("stack_bytes")),
          .static_shared_bytes = integer_of(value.at("static_shared_bytes"))};
}

struct ReplyEncoder {
  OutgoingMessage operator()(const Status& error) const {
    return {.header = dumped({{"error", sparsmith::to_json(error)}}), .blobs = {}};
  }
  OutgoingMessage operator()(const VersionReply& reply) const {
    return {.header = dumped({{"version", reply.version}}), .blobs = {}};
  }
  OutgoingMessage operator()(const CompiledKernel& kernel) const {
    return {.header = dumped({{"compiled", kernel.name}, {"figures", to_json(kernel.figures)}}),
            .blobs = {kernel.cubin}};
  }
  OutgoingMessage operator()(const PtxReply& reply) const {
    return {.header = dumped({{"ptx", true}}), .blobs = {view(reply.ptx)}};
  }
};

CompilerReply reply_of(const json& header, Message& message) {
  if (header.contains("compiled")) {
    CompiledKernel kernel;
    kernel.name = header.at("compiled");
    kernel.figures = figures_of(header.at("figures"));
    kernel.cubin = only_blob(message);
    return kernel;
  }
  if (header.contains("ptx")) return PtxReply{text_of(only_blob(message))};
  expect_no_blob(message);
  if (header.contains("error")) return error_of(header.at("error"));
  return VersionReply{header.at("version")};
}

}  // namespace

OutgoingMessage encode_version_request() { return {.header = dumped({{"call", "version"}}), .blobs = {}}; }

OutgoingMessage encode_compile_request(const KernelSource& kernel, const std::string& architecture) {
  return kernel_request("compile", kernel, architecture);
}

OutgoingMessage encode_ptx_request(const KernelSource& kernel, const std::string& architecture) {
  return kernel_request("ptx", kernel, architecture);
}

Result<CompilerRequest> decode_compiler_request(Message message) {
  return decoded<CompilerRequest>([&] { return request_of(json::parse(message.header), message); });
}

OutgoingMessage encode_compiler_reply(const CompilerReply& reply) { return std::visit(ReplyEncoder{}, reply); }

Result<CompilerReply> decode_compiler_reply(Message message) {
  return decoded<CompilerReply>([&] { return reply_of(json::parse(message.header), message); });
}

}  // namespace sparsmith
