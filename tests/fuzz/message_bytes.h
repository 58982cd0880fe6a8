// Messages of worker and compiler for fuzz targets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tuner/process/message.h"

namespace sparsmith::fuzz {

// Any bytes are some message: a header up to the first zero byte, then blobs, each behind its length as one byte. A
// frame that is altered is rarely a frame; this stays a message.
inline Message message_from_bytes(std::span<const std::byte> bytes) {
  Message message;
  std::size_t at = 0;
  for (; at < bytes.size() && bytes[at] != std::byte{0}; ++at) message.header += static_cast<char>(bytes[at]);
  ++at;
  while (at < bytes.size()) {
    const std::size_t length = std::min(static_cast<std::size_t>(bytes[at]), bytes.size() - at - 1);
    const auto blob = bytes.subspan(at + 1, length);
    message.blobs.emplace_back(blob.begin(), blob.end());
    at += 1 + length;
  }
  return message;
}

// The bytes of which message_from_bytes() makes it, where no blob is longer than 255 bytes.
inline std::string bytes_of_message(const OutgoingMessage& message) {
  std::string bytes = message.header + '\0';
  for (const auto& blob : message.blobs) {
    bytes += static_cast<char>(blob.size());
    bytes.append(reinterpret_cast<const char*>(blob.data()), blob.size());
  }
  return bytes;
}

// As the other end gets it.
inline Message received(const OutgoingMessage& message) {
  Message copy{message.header, {}};
  for (const auto& blob : message.blobs) copy.blobs.emplace_back(blob.begin(), blob.end());
  return copy;
}

}  // namespace sparsmith::fuzz
