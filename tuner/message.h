// How a parent and its worker or compiler talk: frames of a JSON header and binary blobs over a stream socket.
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
#include <span>
#include <string>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// A message that came in.
struct Message {
  std::string header;
  std::vector<std::vector<std::byte>> blobs;
};

// A message to send. Blobs are views: what they show must live until it is sent.
struct OutgoingMessage {
  std::string header;
  std::vector<std::span<const std::byte>> blobs;
};

// What a frame may hold at most; a damaged or foreign stream is refused before memory is taken for it.
struct FrameLimits {
  std::uint64_t header_bytes = 256ULL << 20;
  std::uint64_t blobs = 1ULL << 20;
  std::uint64_t total_bytes = 64ULL << 30;
};

// The sizes in front of a frame.
struct FramePrefix {
  static constexpr std::size_t kFixedBytes = 16;  // magic, header size, number of blobs

  std::uint32_t header_bytes = 0;
  std::uint32_t blob_count = 0;
  std::vector<std::uint64_t> blob_bytes;  // filled by parse_blob_sizes()
};

std::vector<std::byte> encode_prefix(const OutgoingMessage& message);
// REQUIRES: `bytes` has kFixedBytes. Error: kInvalidInput when it is no frame, or over the limits.
Result<FramePrefix> parse_fixed_prefix(std::span<const std::byte> bytes, const FrameLimits& limits = {});
// REQUIRES: 8 bytes a blob. Error: kInvalidInput when the frame is over the limits.
Status parse_blob_sizes(std::span<const std::byte> bytes, FramePrefix& prefix, const FrameLimits& limits = {});

// A whole frame from memory, with nothing behind it. Error: kInvalidInput.
Result<Message> decode_frame(std::span<const std::byte> bytes);
std::vector<std::byte> encode_frame(const OutgoingMessage& message);

// One end of a connected stream socket, owned. One thread at a time.
class MessageStream {
 public:
  explicit MessageStream(int socket) : socket_(socket) {}
  MessageStream(MessageStream&& other) noexcept;
  MessageStream& operator=(MessageStream&&) = delete;
  ~MessageStream();

  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  // Errors: kIoError when the other end has gone; kDeviceError when `deadline` has passed; kInvalidInput when what
  // comes is no frame.
  Status send(const OutgoingMessage& message, Clock::time_point deadline = kNever);
  Result<Message> receive(Clock::time_point deadline = kNever, const FrameLimits& limits = {});

  int socket() const { return socket_; }

 private:
  Status send_bytes(std::span<const std::byte> bytes, Clock::time_point deadline);
  Status receive_bytes(std::span<std::byte> bytes, Clock::time_point deadline);

  int socket_ = -1;
};

}  // namespace sparsmith
