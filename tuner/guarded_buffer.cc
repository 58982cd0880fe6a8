#include "tuner/guarded_buffer.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace sparsmith {
namespace {

constexpr std::size_t kGuardBytes = 1024;        // keeps the alignment of what stands between
constexpr std::size_t kCompareBytes = 16 << 20;  // read back at a time

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

Result<bool> GuardedBuffer::guards_intact(Executor& executor) const {
  std::vector<std::byte> guard(guard_bytes_);
  for (const DeviceAddress at : {allocation_.address(), address() + bytes_}) {
    SPARSMITH_RETURN_IF_ERROR(executor.read(guard, at));
    if (std::any_of(guard.begin(), guard.end(), [](std::byte b) { return b != std::byte{0xFF}; })) return false;
  }
  return true;
}

Result<bool> GuardedBuffer::holds(Executor& executor, std::span<const std::byte> contents) const {
  std::vector<std::byte> part(std::min(kCompareBytes, bytes_));
  for (std::size_t begin = 0; begin < bytes_; begin += part.size()) {
    const std::size_t size = std::min(part.size(), bytes_ - begin);
    SPARSMITH_RETURN_IF_ERROR(executor.read(std::span(part).first(size), address() + begin));
    if (std::memcmp(part.data(), contents.data() + begin, size) != 0) return false;
  }
  return true;
}

Status GuardedBuffer::reset(Executor& executor) const {
  return executor.fill(allocation_.address(), std::byte{0xFF}, bytes_ + 2 * guard_bytes_);
}

}  // namespace sparsmith
