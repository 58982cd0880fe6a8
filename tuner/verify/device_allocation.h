// Memory of an executor. The destructor frees it.
#pragma once

#include <span>
#include <utility>

#include "runtime/executor.h"

namespace sparsmith {

// Movable. The executor outlives the object.
class DeviceAllocation {
 public:
  DeviceAllocation() = default;

  static Result<DeviceAllocation> make(Executor& executor, std::size_t bytes) {
    SPARSMITH_ASSIGN_OR_RETURN(const DeviceAddress address, executor.allocate(bytes));
    return DeviceAllocation(executor, address, bytes);
  }
  static Result<DeviceAllocation> holding(Executor& executor, std::span<const std::byte> contents) {
    SPARSMITH_ASSIGN_OR_RETURN(DeviceAllocation allocation, make(executor, contents.size()));
    SPARSMITH_RETURN_IF_ERROR(executor.write(allocation.address(), contents));
    return allocation;
  }

  DeviceAllocation(DeviceAllocation&& other) noexcept { *this = std::move(other); }
  DeviceAllocation& operator=(DeviceAllocation&& other) noexcept {
    std::swap(executor_, other.executor_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceAllocation() {
    // The error is ignored: a failed device takes no memory back, and its process ends soon.
    if (executor_ != nullptr) (void)executor_->free(address_);
  }

  DeviceAddress address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  DeviceAllocation(Executor& executor, DeviceAddress address, std::size_t bytes)
      : executor_(&executor), address_(address), bytes_(bytes) {}

  Executor* executor_ = nullptr;
  DeviceAddress address_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace sparsmith
