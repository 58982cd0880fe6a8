// Device memory with guards on both sides. They show writes of a kernel before or behind its buffer.
#pragma once

#include <span>
#include <string_view>

#include "tuner/verify/device_allocation.h"
#include "tuner/verify/fingerprint.h"

namespace sparsmith {

// Movable. The executor outlives the object. On the emulator there are no guards: the emulator itself detects every
// access outside of a buffer.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  // Aligned to 256 bytes. The buffer and its guards are filled with 0xFF, so every value read from there is a NaN.
  static Result<GuardedBuffer> make(Executor& executor, std::size_t bytes);
  static Result<GuardedBuffer> holding(Executor& executor, std::span<const std::byte> contents);

  DeviceAddress address() const { return allocation_.address() + guard_bytes_; }
  std::size_t bytes() const { return bytes_; }
  // The range of the buffer with its guards.
  Fingerprinter::Range guarded_range() const { return {allocation_.address(), bytes_ + 2 * guard_bytes_}; }

  // Fills buffer and guards with 0xFF again.
  Status reset(Executor& executor) const;
  // Restores the guards and the contents. Returns the kind of damage, "changed" or "wrote outside of"; empty: no
  // damage. `contents`: the expected bytes() bytes; empty when the buffer may hold anything.
  Result<std::string_view> repair(Executor& executor, std::span<const std::byte> contents) const;

 private:
  DeviceAllocation allocation_;
  std::size_t guard_bytes_ = 0;  // on each side
  std::size_t bytes_ = 0;
};

}  // namespace sparsmith
