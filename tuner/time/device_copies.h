// Copies of a weight's arrays in device memory. Launches rotate over more copies than the cache holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/gpu_executor.h"
#include "tuner/verify/device_allocation.h"

namespace sparsmith {

// REQUIRES: the executor and the originals outlive the object. Movable.
class DeviceCopies {
 public:
  struct Array {
    DeviceAddress address = 0;
    std::size_t bytes = 0;
  };

  DeviceCopies() = default;
  DeviceCopies(GpuExecutor& executor, std::vector<Array> originals);

  // `bytes` rounded up to the minimum alignment of separate allocations.
  static std::size_t aligned(std::size_t bytes);

  // Makes copies until there are `count`, the originals included.
  Status make(int count);
  int count() const { return 1 + static_cast<int>(copies_.size()); }
  // The address of array `array` in copy `copy`; copy 0 is the original.
  DeviceAddress address(int copy, std::size_t array) const;

 private:
  Status enqueue_copy(DeviceAddress to, DeviceAddress from, std::size_t bytes);

  GpuExecutor* executor_ = nullptr;
  std::vector<Array> originals_;
  std::vector<std::size_t> offsets_;       // offsets of the arrays in a copy
  std::size_t stride_ = 0;                 // bytes from one copy to the next
  std::vector<DeviceAllocation> buffers_;  // each holds the copies from one call of make()
  std::vector<DeviceAddress> copies_;      // addresses of the copies, without the originals
};

}  // namespace sparsmith
