// Requests to the compiler program and its replies, from any bytes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tuner/compiler_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto message = sparsmith::decode_frame(bytes);
  if (message.ok()) {
    (void)sparsmith::decode_compiler_reply(*message);
    (void)sparsmith::decode_compiler_request(*message);
  }
  // Most inputs are no frame; take them as a header, without a blob and with one, too.
  const std::string header(reinterpret_cast<const char*>(data), size);
  const std::vector<std::byte> blob(bytes.begin(), bytes.end());
  for (const auto& blobs : {std::vector<std::vector<std::byte>>(), {blob}}) {
    (void)sparsmith::decode_compiler_reply({header, blobs});
    (void)sparsmith::decode_compiler_request({header, blobs});
  }
  return 0;
}
