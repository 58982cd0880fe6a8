#include "tuner/process/message.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace sparsmith {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are sent as they lie in memory");

constexpr std::array<char, 8> kMagic = {'S', 'P', 'S', 'M', 'I', 'T', 'H', '1'};

struct Prefix {
  std::array<char, 8> magic = kMagic;
  std::uint32_t header_bytes = 0;
  std::uint32_t blobs = 0;
};
static_assert(sizeof(Prefix) == 16);

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
  const Prefix prefix{.header_bytes = static_cast<std::uint32_t>(message.header.size()),
                      .blobs = static_cast<std::uint32_t>(message.blobs.size())};
  std::vector<std::uint64_t> sizes;
  for (const auto& blob : message.blobs) sizes.push_back(blob.size());
  SPARSMITH_RETURN_IF_ERROR(send_bytes(std::as_bytes(std::span(&prefix, 1)), deadline));
  SPARSMITH_RETURN_IF_ERROR(send_bytes(std::as_bytes(std::span(sizes)), deadline));
  SPARSMITH_RETURN_IF_ERROR(send_bytes(std::as_bytes(std::span(message.header)), deadline));
  for (const auto& blob : message.blobs) SPARSMITH_RETURN_IF_ERROR(send_bytes(blob, deadline));
  return {};
}

Result<Message> MessageStream::receive(Clock::time_point deadline, const FrameLimits& limits) {
  Prefix prefix;
  SPARSMITH_RETURN_IF_ERROR(receive_bytes(std::as_writable_bytes(std::span(&prefix, 1)), deadline));
  if (prefix.magic != kMagic) return invalid_input("no frame");
  if (prefix.header_bytes > limits.header_bytes || prefix.blobs > limits.blobs)
    return invalid_input(fmt::format("a frame with a header of {} bytes and {} blobs is over the limits",
                                     prefix.header_bytes, prefix.blobs));
  std::vector<std::uint64_t> sizes(prefix.blobs);
  SPARSMITH_RETURN_IF_ERROR(receive_bytes(std::as_writable_bytes(std::span(sizes)), deadline));
  std::uint64_t left = limits.total_bytes;
  for (const std::uint64_t size : sizes) {
    if (size > left) return invalid_input("the blobs of a frame are over the limits");
    left -= size;
  }
  Message message;
  message.header.resize(prefix.header_bytes);
  SPARSMITH_RETURN_IF_ERROR(receive_bytes(std::as_writable_bytes(std::span(message.header)), deadline));
  for (const std::uint64_t size : sizes)
    SPARSMITH_RETURN_IF_ERROR(receive_bytes(message.blobs.emplace_back(size), deadline));
  return message;
}

}  // namespace sparsmith
