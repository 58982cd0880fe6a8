#include "tuner/message.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace sparsmith {
namespace {

constexpr char kMagic[9] = "SPSMITH1";

template <class T>
T read_number(std::span<const std::byte> bytes, std::size_t offset) {
  T value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <class T>
void write_number(std::span<std::byte> bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

// Waits until the socket is ready for `events`.
Status wait_for(int socket, short events, MessageStream::Clock::time_point deadline) {
  while (true) {
    int timeout_ms = -1;
    if (deadline != MessageStream::kNever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - MessageStream::Clock::now()).count();
      if (left <= 0) return device_error("no answer in time");
      timeout_ms = static_cast<int>(std::min<std::int64_t>(left, 1'000'000'000));
    }
    pollfd entry{.fd = socket, .events = events, .revents = 0};
    const int ready = poll(&entry, 1, timeout_ms);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return io_error(fmt::format("poll: {}", std::strerror(errno)));
  }
}

}  // namespace

std::vector<std::byte> encode_prefix(const OutgoingMessage& message) {
  std::vector<std::byte> bytes(FramePrefix::kFixedBytes + 8 * message.blobs.size());
  std::memcpy(bytes.data(), kMagic, 8);
  write_number(bytes, 8, static_cast<std::uint32_t>(message.header.size()));
  write_number(bytes, 12, static_cast<std::uint32_t>(message.blobs.size()));
  for (std::size_t i = 0; i < message.blobs.size(); ++i)
    write_number(bytes, FramePrefix::kFixedBytes + 8 * i, static_cast<std::uint64_t>(message.blobs[i].size()));
  return bytes;
}

Result<FramePrefix> parse_fixed_prefix(std::span<const std::byte> bytes, const FrameLimits& limits) {
  if (std::memcmp(bytes.data(), kMagic, 8) != 0) return invalid_input("no frame");
  FramePrefix prefix;
  prefix.header_bytes = read_number<std::uint32_t>(bytes, 8);
  prefix.blob_count = read_number<std::uint32_t>(bytes, 12);
  if (prefix.header_bytes > limits.header_bytes || prefix.blob_count > limits.blobs)
    return invalid_input(fmt::format("a frame with a header of {} bytes and {} blobs is over the limits",
                                     prefix.header_bytes, prefix.blob_count));
  return prefix;
}

Status parse_blob_sizes(std::span<const std::byte> bytes, FramePrefix& prefix, const FrameLimits& limits) {
  std::uint64_t total = 0;
  prefix.blob_bytes.clear();
  for (std::size_t i = 0; i < prefix.blob_count; ++i) {
    const std::uint64_t size = read_number<std::uint64_t>(bytes, i * 8);
    if (size > limits.total_bytes - total) return invalid_input("the blobs of a frame are over the limits");
    total += size;
    prefix.blob_bytes.push_back(size);
  }
  return {};
}

Result<Message> decode_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < FramePrefix::kFixedBytes) return invalid_input("a frame ends in its prefix");
  SPARSMITH_ASSIGN_OR_RETURN(FramePrefix prefix, parse_fixed_prefix(bytes));
  std::span<const std::byte> rest = bytes.subspan(FramePrefix::kFixedBytes);
  const std::size_t sizes = std::size_t{8} * prefix.blob_count;
  if (rest.size() < sizes) return invalid_input("a frame ends in its prefix");
  SPARSMITH_RETURN_IF_ERROR(parse_blob_sizes(rest.first(sizes), prefix));
  rest = rest.subspan(sizes);

  Message message;
  if (rest.size() < prefix.header_bytes) return invalid_input("a frame ends in its header");
  message.header.assign(reinterpret_cast<const char*>(rest.data()), prefix.header_bytes);
  rest = rest.subspan(prefix.header_bytes);
  for (const std::uint64_t size : prefix.blob_bytes) {
    if (rest.size() < size) return invalid_input("a frame ends in a blob");
    message.blobs.emplace_back(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(size));
    rest = rest.subspan(size);
  }
  if (!rest.empty()) return invalid_input("bytes follow a frame");
  return message;
}

std::vector<std::byte> encode_frame(const OutgoingMessage& message) {
  std::vector<std::byte> bytes = encode_prefix(message);
  const auto header = std::as_bytes(std::span(message.header));
  bytes.insert(bytes.end(), header.begin(), header.end());
  for (const auto& blob : message.blobs) bytes.insert(bytes.end(), blob.begin(), blob.end());
  return bytes;
}

MessageStream::MessageStream(MessageStream&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}

MessageStream::~MessageStream() {
  if (socket_ >= 0) close(socket_);
}

Status MessageStream::send_bytes(std::span<const std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      SPARSMITH_RETURN_IF_ERROR(wait_for(socket_, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return io_error(fmt::format("send: {}", std::strerror(errno)));
    }
  }
  return {};
}

Status MessageStream::receive_bytes(std::span<std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    } else if (received == 0) {
      return io_error("the other end closed the connection");
    } else if (errno == EAGAIN) {
      SPARSMITH_RETURN_IF_ERROR(wait_for(socket_, POLLIN, deadline));
    } else if (errno != EINTR) {
      return io_error(fmt::format("recv: {}", std::strerror(errno)));
    }
  }
  return {};
}

Status MessageStream::send(const OutgoingMessage& message, Clock::time_point deadline) {
  SPARSMITH_RETURN_IF_ERROR(send_bytes(encode_prefix(message), deadline));
  SPARSMITH_RETURN_IF_ERROR(send_bytes(std::as_bytes(std::span(message.header)), deadline));
  for (const auto& blob : message.blobs) SPARSMITH_RETURN_IF_ERROR(send_bytes(blob, deadline));
  return {};
}

Result<Message> MessageStream::receive(Clock::time_point deadline, const FrameLimits& limits) {
  std::vector<std::byte> bytes(FramePrefix::kFixedBytes);
  SPARSMITH_RETURN_IF_ERROR(receive_bytes(bytes, deadline));
  SPARSMITH_ASSIGN_OR_RETURN(FramePrefix prefix, parse_fixed_prefix(bytes, limits));
  bytes.resize(std::size_t{8} * prefix.blob_count);
  SPARSMITH_RETURN_IF_ERROR(receive_bytes(bytes, deadline));
  SPARSMITH_RETURN_IF_ERROR(parse_blob_sizes(bytes, prefix, limits));

  Message message;
  message.header.resize(prefix.header_bytes);
  SPARSMITH_RETURN_IF_ERROR(receive_bytes(std::as_writable_bytes(std::span(message.header)), deadline));
  for (const std::uint64_t size : prefix.blob_bytes) {
    message.blobs.emplace_back(size);
    SPARSMITH_RETURN_IF_ERROR(receive_bytes(message.blobs.back(), deadline));
  }
  return message;
}

}  // namespace sparsmith
