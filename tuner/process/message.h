// Messages between a parent and its worker or compiler. Each is a frame with a JSON header and binary blobs, on a
// stream socket.
//
//   magic "SPSMITH1"      8 bytes
//   header size           u32, little-endian, as all numbers
//   number of blobs       u32
//   size of each blob     u64 each
//   header                JSON
//   blobs                 one after the other
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// A received message.
struct Message {
  std::string header;
  std::vector<std::vector<std::byte>> blobs;
};

// A message to send. Blobs are views. REQUIRES: their data lives until the message is sent.
struct OutgoingMessage {
  std::string header;
  std::vector<std::span<const std::byte>> blobs;
};

// Limits of a frame. A damaged or foreign stream is refused before memory is allocated for it.
struct FrameLimits {
  std::uint64_t header_bytes = 256ULL << 20;
  std::uint64_t blobs = 1ULL << 20;
  std::uint64_t total_bytes = 64ULL << 30;
};

// Owns one end of a connected stream socket. One thread at a time.
class MessageStream {
 public:
  explicit MessageStream(int socket) : socket_(socket) {}
  MessageStream(MessageStream&& other) noexcept;
  MessageStream& operator=(MessageStream&&) = delete;
  ~MessageStream();

  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  // Errors: kIoError when the other end is closed; kDeviceError when `deadline` has passed; kInvalidInput when the
  // received bytes are no frame.
  Status send(const OutgoingMessage& message, Clock::time_point deadline = kNever);
  Result<Message> receive(Clock::time_point deadline = kNever, const FrameLimits& limits = {});

  int socket() const { return socket_; }

 private:
  Status send_bytes(std::span<const std::byte> bytes, Clock::time_point deadline);
  Status receive_bytes(std::span<std::byte> bytes, Clock::time_point deadline);

  int socket_ = -1;
};

// A child program's main loop. Calls `answer` with each message from `stream`; `answer` sends the reply on `stream`.
// Returns the process's exit code when the other end closes the socket. Ends the process at once when the other end
// closes it during a request.
//   name: the program's name in its log
//   answer: returns an error when its reply could not be sent
int serve_parent(MessageStream& stream, const std::string& name, const std::function<Status(Message)>& answer);

}  // namespace sparsmith
