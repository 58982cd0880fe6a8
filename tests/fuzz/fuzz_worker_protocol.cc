// Frames, requests and replies of the worker protocol, from any bytes.
#include <cstddef>
#include <cstdint>
#include <span>

#include "tuner/worker_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  auto message = sparsmith::decode_frame(bytes);
  if (message.ok()) {
    (void)sparsmith::decode_reply(*message);
    (void)sparsmith::decode_request(*std::move(message));
  }
  // Most inputs are no frame; take them as a header with one blob, too.
  const std::string header(reinterpret_cast<const char*>(data), size);
  (void)sparsmith::decode_reply({header, {}});
  (void)sparsmith::decode_request({header, {std::vector<std::byte>(bytes.begin(), bytes.end())}});
  return 0;
}
