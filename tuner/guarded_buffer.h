// Device memory with canaries: what a kernel writes before or behind its buffer shows.
#pragma once

#include <span>

#include "tuner/device_allocation.h"
#include "tuner/fingerprint.h"

namespace sparsmith {

// Movable. The executor outlives it. On the emulator, which itself sees every access outside of a buffer, there are
// no guards.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  // Aligned to 256 bytes, filled with 0xFF, as the guards on both sides are: what is read from there is a NaN.
  static Result<GuardedBuffer> make(Executor& executor, std::size_t bytes);
  static Result<GuardedBuffer> holding(Executor& executor, std::span<const std::byte> contents);

  DeviceAddress address() const { return allocation_.address() + guard_bytes_; }
  std::size_t bytes() const { return bytes_; }
  // With the guards.
  Fingerprinter::Range guarded_range() const { return {allocation_.address(), bytes_ + 2 * guard_bytes_}; }

  // Whether both guards are as they were.
  Result<bool> guards_intact(Executor& executor) const;
  // Whether the buffer holds exactly `contents`. REQUIRES: contents has bytes() bytes.
  Result<bool> holds(Executor& executor, std::span<const std::byte> contents) const;
  // Fills buffer and guards with 0xFF again.
  Status reset(Executor& executor) const;

 private:
  DeviceAllocation allocation_;
  std::size_t guard_bytes_ = 0;  // on each side
  std::size_t bytes_ = 0;
};

}  // namespace sparsmith
