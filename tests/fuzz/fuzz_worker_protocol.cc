// Requests to workers and their replies, from any bytes: as a frame, as a message with blobs, and as a header with one
// blob. What is understood is understood again as it is sent on.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <type_traits>

#include "tests/fuzz/message_bytes.h"
#include "tuner/worker_protocol.h"

namespace sparsmith {
namespace {

OutgoingMessage encoded(const WorkerRequest& request) {
  return std::visit(
      [](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, PropertiesRequest>) return encode_properties_request();
        if constexpr (std::is_same_v<T, SpeedsRequest>) return encode_speeds_request(value.probe);
        if constexpr (std::is_same_v<T, KnownGoodRequest>) return encode_known_good_request(value.kernel);
        if constexpr (std::is_same_v<T, ReferenceKernelRequest>)
          return encode_reference_kernel_request(value.type, value.kernel);
        if constexpr (std::is_same_v<T, OutputComparisonKernelRequest>)
          return encode_output_comparison_kernel_request(value.type, value.kernel);
        if constexpr (std::is_same_v<T, FingerprintKernelRequest>)
          return encode_fingerprint_kernel_request(value.kernel);
        if constexpr (std::is_same_v<T, WeightRequest>) return encode_weight_request(value.matrix, value.spec);
        if constexpr (std::is_same_v<T, PackingRequest>) return encode_packing_request(value.packed);
        if constexpr (std::is_same_v<T, PlacePackingRequest>) return encode_place_packing_request(value.name);
        if constexpr (std::is_same_v<T, DropPackingRequest>) return encode_drop_packing_request(value.name);
        if constexpr (std::is_same_v<T, TokensRequest>) return encode_tokens_request(value.tokens, value.seed);
        if constexpr (std::is_same_v<T, VerifyRequest>) return encode_verify_request(value.candidate, value.run_limit);
        if constexpr (std::is_same_v<T, TimeRequest>)
          return encode_time_request(value.candidates, value.vendors, value.policy, value.unverified);
        if constexpr (std::is_same_v<T, VendorRequest>) return encode_vendor_request(value.name, value.policy);
      },
      request);
}

void check(const Message& message) {
  if (const auto request = decode_request(message); request.ok()) {
    const auto again = decode_request(fuzz::received(encoded(*request)));
    if (!again.ok() || again->index() != request->index()) std::abort();
  }
  if (const auto reply = decode_reply(message); reply.ok()) {
    const auto again = decode_reply(fuzz::received(encode_reply(*reply)));
    if (!again.ok() || again->index() != reply->index()) std::abort();
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
  check({{reinterpret_cast<const char*>(data), size}, {{bytes.begin(), bytes.end()}}});
  return 0;
}

}  // namespace sparsmith
