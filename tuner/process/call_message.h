// Calls and replies as messages: {"call": NAME, ...fields}, {"reply": VALUE} or {"error": {...}}.
//
// Only for .cc files: the header includes the whole JSON library.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "tuner/process/call.h"
#include "tuner/process/child_channel.h"
#include "tuner/process/fields.h"

namespace sparsmith {

// Serializes JSON. Replaces bytes that are not UTF-8: a kernel's source or a driver's message may hold any byte.
inline std::string dumped(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// An error in a message.
struct ErrorFields {
  int code = 0;
  std::string message;
  void fields(auto& f) {
    f("code", code);
    f("message", message);
    f.require(code > static_cast<int>(StatusCode::kOk) && code <= static_cast<int>(StatusCode::kInternal),
              "there is no such error code");
  }
};

// The message has views of the call's large arrays. encode_value() does the same for the reply.
template <class Call>
OutgoingMessage encode_call(const Call& call) {
  OutgoingMessage message;
  nlohmann::json header = MessageWriter(message).json_of(call);
  header["call"] = Call::kName;
  message.header = dumped(header);
  return message;
}
template <class... Calls>
OutgoingMessage encode_call(const std::variant<Calls...>& call) {
  return std::visit([](const auto& typed) { return encode_call(typed); }, call);
}

// `key`: "reply" or "error".
template <class Value>
OutgoingMessage encode_value(const char* key, const Value& value) {
  OutgoingMessage message;
  message.header = dumped({{key, MessageWriter(message).json_of(value)}});
  return message;
}
inline OutgoingMessage encode_error(const Status& error) {
  return encode_value("error", ErrorFields{static_cast<int>(error.code()), error.message()});
}
template <class Reply>
OutgoingMessage encode_reply(const Result<Reply>& reply) {
  return reply.ok() ? encode_value("reply", *reply) : encode_error(reply.status());
}
template <class... Replies>
OutgoingMessage encode_reply(const Result<std::variant<Replies...>>& reply) {
  if (!reply.ok()) return encode_error(reply.status());
  return std::visit([](const auto& value) { return encode_value("reply", value); }, *reply);
}

// Reads a message with all its blobs. Error: kInvalidInput with the reason.
template <class Read>
Status decode(Message message, const Read& read) {
  SPARSMITH_ASSIGN_OR_RETURN(const nlohmann::json header, parse_json(message.header));
  MessageReader::Source source(std::move(message.blobs));
  MessageReader reader(header, source);
  read(header, reader);
  if (source.blobs_taken < source.blobs.size()) source.fail("there are more blobs than were announced");
  return source.status;
}

template <class... Calls>
Status decode_call(Message message, std::variant<Calls...>& call) {
  return decode(std::move(message), [&](const nlohmann::json&, MessageReader& reader) {
    std::string name;
    reader("call", name);
    const bool known = ((name == Calls::kName && (list_fields(reader, call.template emplace<Calls>()), true)) || ...);
    if (!known) reader.require(false, "no such call");
  });
}

// Sets `reply` to the reply in the message, or to the error in the message.
template <class Reply>
Status decode_reply(Message message, Result<Reply>& reply) {
  return decode(std::move(message), [&](const nlohmann::json& header, MessageReader& reader) {
    if (header.is_object() && header.contains("error")) {
      ErrorFields error;
      reader("error", error);
      reply = Status(static_cast<StatusCode>(error.code), error.message);
    } else {
      Reply value{};
      reader("reply", value);
      reply = std::move(value);
    }
  });
}

// Sends a call and waits for its reply. Errors: as ChildChannel::ask().
template <class Call>
Result<typename Call::Reply> ask(ChildChannel& channel, const Call& call, const std::string& what,
                                 std::chrono::milliseconds timeout, const FrameLimits& limits) {
  SPARSMITH_ASSIGN_OR_RETURN(Message message, channel.ask(encode_call(call), what, timeout, limits));
  Result<typename Call::Reply> reply = typename Call::Reply();
  const Status decoded = decode_reply(std::move(message), reply);
  return decoded.ok() ? reply : channel.refuse_answer(decoded, what);
}

}  // namespace sparsmith
