#include "tuner/time/device_copies.h"

#include <algorithm>
#include <utility>

namespace sparsmith {

DeviceCopies::DeviceCopies(GpuExecutor& executor, std::vector<Array> originals)
    : executor_(&executor), originals_(std::move(originals)) {
  for (const Array& array : originals_) {
    offsets_.push_back(stride_);
    stride_ += aligned(array.bytes);
  }
}

std::size_t DeviceCopies::aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Status DeviceCopies::make(int count) {
  const int missing = count - this->count();
  if (missing <= 0) return {};
  SPARSMITH_ASSIGN_OR_RETURN(DeviceAllocation buffer,
                             DeviceAllocation::make(*executor_, static_cast<std::size_t>(missing) * stride_));
  for (std::size_t i = 0; i < originals_.size(); ++i)
    SPARSMITH_RETURN_IF_ERROR(enqueue_copy(buffer.address() + offsets_[i], originals_[i].address, originals_[i].bytes));
  // Twice as many with each call: a small weight has over a thousand copies.
  for (int made = 1; made < missing; made *= 2)
    SPARSMITH_RETURN_IF_ERROR(enqueue_copy(buffer.address() + made * stride_, buffer.address(),
                                           static_cast<std::size_t>(std::min(made, missing - made)) * stride_));
  for (int i = 0; i < missing; ++i) copies_.push_back(buffer.address() + i * stride_);
  buffers_.push_back(std::move(buffer));
  const CudaDriver& driver = executor_->driver();
  return driver.check(driver.StreamSynchronize(executor_->stream()), "copying a weight");
}

DeviceAddress DeviceCopies::address(int copy, std::size_t array) const {
  return copy == 0 ? originals_[array].address : copies_[copy - 1] + offsets_[array];
}

Status DeviceCopies::enqueue_copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  if (bytes == 0) return {};
  const CudaDriver& driver = executor_->driver();
  return driver.check(driver.MemcpyDtoDAsync(to, from, bytes, executor_->stream()), "copying a weight");
}

}  // namespace sparsmith
