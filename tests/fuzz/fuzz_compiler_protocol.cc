// Requests to the compiler program and its replies, from any bytes: as a frame, as a message with blobs, and as a
// header without a blob and with one. What is understood is understood again as it is sent on.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <type_traits>

#include "tests/fuzz/message_bytes.h"
#include "tuner/compiler_protocol.h"

namespace sparsmith {
namespace {

OutgoingMessage encoded(const CompilerRequest& request) {
  return std::visit(
      [](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, VersionRequest>) return encode_version_request();
        if constexpr (std::is_same_v<T, CompileRequest>)
          return encode_compile_request(value.kernel, value.architecture);
        if constexpr (std::is_same_v<T, PtxRequest>) return encode_ptx_request(value.kernel, value.architecture);
      },
      request);
}

void check(const Message& message) {
  if (const auto request = decode_compiler_request(message); request.ok()) {
    const auto again = decode_compiler_request(fuzz::received(encoded(*request)));
    if (!again.ok() || again->index() != request->index()) std::abort();
  }
  if (const auto reply = decode_compiler_reply(message); reply.ok()) {
    const auto again = decode_compiler_reply(fuzz::received(encode_compiler_reply(*reply)));
    if (!again.ok() || again->index() != reply->index()) std::abort();
    if (const auto* error = std::get_if<Status>(&*reply); error != nullptr && error->ok()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto message = decode_frame(bytes); message.ok()) {
    check(*message);
    return 0;
  }
  check(fuzz::message_from_bytes(bytes));
  const std::string header(reinterpret_cast<const char*>(data), size);
  check({header, {}});
  check({header, {{bytes.begin(), bytes.end()}}});
  return 0;
}

}  // namespace sparsmith
