// Calls of workers and their replies, from any bytes: as a frame, as a message with blobs, and as a header with one
// blob. What is understood is understood again as it is sent on.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <variant>

#include "tests/fuzz/message_bytes.h"
#include "tests/support/message_frames.h"
#include "tuner/process/call_message.h"
#include "tuner/worker_calls.h"

namespace sparsmith {
namespace {

template <class Reply>
void check_reply(const Message& message) {
  Result<Reply> reply = Reply();
  if (!decode_reply(message, reply).ok()) return;
  Result<Reply> again = Reply();
  if (!decode_reply(fuzz::received(encode_reply(reply)), again).ok() || again.ok() != reply.ok()) std::abort();
}

template <class... Replies>
void check_replies(const Message& message, std::variant<Replies...>* /*all*/) {
  (check_reply<Replies>(message), ...);
}

void check(const Message& message) {
  WorkerCall call;
  if (decode_call(message, call).ok()) {
    WorkerCall again;
    if (!decode_call(fuzz::received(encode_call(call)), again).ok() || again.index() != call.index()) std::abort();
  }
  check_replies(message, static_cast<WorkerReply*>(nullptr));
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
