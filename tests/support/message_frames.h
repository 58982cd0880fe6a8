// Frames in memory, as a message stream sends and receives them.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "tuner/process/message.h"

namespace sparsmith {

inline std::pair<int, int> connected_sockets() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
  return {ends[0], ends[1]};
}

inline std::vector<std::byte> encode_frame(const OutgoingMessage& message) {
  const auto [ours, theirs] = connected_sockets();
  std::thread sender([&message, socket = ours] { (void)MessageStream(socket).send(message); });
  std::vector<std::byte> frame;
  std::byte piece[4096];
  for (ssize_t count = 1; count > 0;) {
    count = read(theirs, piece, sizeof(piece));
    if (count > 0) frame.insert(frame.end(), piece, piece + count);
  }
  sender.join();
  close(theirs);
  return frame;
}

// Error: when the bytes are not exactly one frame.
inline Result<Message> decode_frame(std::span<const std::byte> bytes) {
  const auto [ours, theirs] = connected_sockets();
  std::thread sender([rest = bytes, socket = theirs]() mutable {
    for (ssize_t count = 1; count > 0 && !rest.empty();) {
      count = send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);  // fails when the receiver has gone
      if (count > 0) rest = rest.subspan(static_cast<std::size_t>(count));
    }
    close(socket);
  });
  Result<Message> message = [&, socket = ours]() -> Result<Message> {
    MessageStream stream(socket);
    SPARSMITH_ASSIGN_OR_RETURN(Message received,
                               stream.receive(MessageStream::kNever, {bytes.size(), bytes.size(), bytes.size()}));
    std::byte more{};
    if (recv(socket, &more, 1, 0) > 0) return invalid_input("bytes follow a frame");
    return received;
  }();
  sender.join();
  return message;
}

}  // namespace sparsmith
