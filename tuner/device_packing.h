// A packed weight on a device.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "formats/packed_weight.h"
#include "tuner/guarded_buffer.h"

namespace sparsmith {

// Movable. The executor outlives it. Keeps the packed weight in host memory, to see and undo changes.
class DevicePacking {
 public:
  static Result<DevicePacking> upload(Executor& executor, PackedWeight packed);

  const PackedWeight& packed() const { return packed_; }
  // Of each array, in the order of packed().arrays.
  std::vector<LaunchBindings::Packed> bindings() const;

  // Empty when arrays and guards are as they were; otherwise what was done to them, and it is undone.
  Result<std::string> damage(Executor& executor);

 private:
  PackedWeight packed_;
  std::vector<GuardedBuffer> arrays_;
};

}  // namespace sparsmith
