#include "tuner/verify/guarded_buffer.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace sparsmith {
namespace {

constexpr std::size_t kGuardBytes = 1024;        // keeps the alignment of what stands between
constexpr std::size_t kCompareBytes = 16 << 20;  // read back at a time

Result<bool> holds(Executor& executor, DeviceAddress address, std::span<const std::byte> expected) {
  std::vector<std::byte> part(std::min(kCompareBytes, expected.size()));
  for (std::size_t begin = 0; begin < expected.size(); begin += part.size()) {
    const auto piece = std::span(part).first(std::min(part.size(), expected.size() - begin));
    SPARSMITH_RETURN_IF_ERROR(executor.read(piece, address + begin));
    if (std::memcmp(piece.data(), expected.data() + begin, piece.size()) != 0) return false;
  }
  return true;
}

}  // namespace

Result<GuardedBuffer> GuardedBuffer::make(Executor& executor, std::size_t bytes) {
  GuardedBuffer buffer;
  buffer.bytes_ = bytes;
  buffer.guard_bytes_ = executor.properties().is_emulator ? 0 : kGuardBytes;
  SPARSMITH_ASSIGN_OR_RETURN(buffer.allocation_, DeviceAllocation::make(executor, bytes + 2 * buffer.guard_bytes_));
  return buffer;
}

Result<GuardedBuffer> GuardedBuffer::holding(Executor& executor, std::span<const std::byte> contents) {
  SPARSMITH_ASSIGN_OR_RETURN(GuardedBuffer buffer, make(executor, contents.size()));
  SPARSMITH_RETURN_IF_ERROR(executor.write(buffer.address(), contents));
  return buffer;
}

Status GuardedBuffer::reset(Executor& executor) const {
  return executor.fill(allocation_.address(), std::byte{0xFF}, bytes_ + 2 * guard_bytes_);
}

Result<std::string_view> GuardedBuffer::repair(Executor& executor, std::span<const std::byte> contents) const {
  const std::vector<std::byte> guard(guard_bytes_, std::byte{0xFF});
  SPARSMITH_ASSIGN_OR_RETURN(const bool before, holds(executor, allocation_.address(), guard));
  SPARSMITH_ASSIGN_OR_RETURN(const bool behind, holds(executor, address() + bytes_, guard));
  SPARSMITH_ASSIGN_OR_RETURN(const bool inside, holds(executor, address(), contents));
  if (before && behind && inside) return std::string_view();
  SPARSMITH_RETURN_IF_ERROR(reset(executor));
  SPARSMITH_RETURN_IF_ERROR(executor.write(address(), contents));
  return std::string_view(inside ? "wrote outside of" : "changed");
}

}  // namespace sparsmith
