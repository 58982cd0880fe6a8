#include "tuner/plan_work.h"

#include <algorithm>
#include <utility>

namespace sparsmith {
namespace {

constexpr std::size_t kAlignment = 256;  // of arrays, as separate allocations have at least

}  // namespace

PackingCopies::PackingCopies(GpuExecutor& executor, const DevicePacking& packing)
    : executor_(executor), packing_(packing), bindings_{packing.bindings()} {
  for (const PackedArray& array : packing_.packed().arrays) {
    offsets_.push_back(stride_);
    stride_ += (array.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
}

Status PackingCopies::make(int count) {
  const int missing = count - this->count();
  if (missing <= 0) return {};
  SPARSMITH_ASSIGN_OR_RETURN(DeviceAllocation buffer,
                             DeviceAllocation::make(executor_, static_cast<std::size_t>(missing) * stride_));
  for (std::size_t i = 0; i < offsets_.size(); ++i) {
    const std::size_t bytes = packing_.packed().arrays[i].bytes.size();
    if (bytes > 0) SPARSMITH_RETURN_IF_ERROR(copy(buffer.address() + offsets_[i], bindings_.front()[i].address, bytes));
  }
  // Twice as many with each call: a small weight has over a thousand copies.
  for (int made = 1; made < missing; made *= 2) {
    const std::size_t bytes = static_cast<std::size_t>(std::min(made, missing - made)) * stride_;
    if (bytes > 0) SPARSMITH_RETURN_IF_ERROR(copy(buffer.address() + made * stride_, buffer.address(), bytes));
  }
  for (int i = 0; i < missing; ++i) {
    std::vector<LaunchBindings::Packed> arrays = bindings_.front();
    for (std::size_t a = 0; a < arrays.size(); ++a) arrays[a].address = buffer.address() + i * stride_ + offsets_[a];
    bindings_.push_back(std::move(arrays));
  }
  buffers_.push_back(std::move(buffer));
  const CudaDriver& driver = executor_.driver();
  return driver.check(driver.StreamSynchronize(executor_.stream()), "copying a packed weight");
}

Status PackingCopies::copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  const CudaDriver& driver = executor_.driver();
  return driver.check(driver.MemcpyDtoDAsync(to, from, bytes, executor_.stream()), "copying a packed weight");
}

PlanWork::PlanWork(GpuExecutor& executor, const LaunchPlan& plan, LaunchBindings bindings,
                   std::shared_ptr<PackingCopies> copies, std::optional<OperatorSpec> dense)
    : executor_(executor), plan_(plan), bindings_(std::move(bindings)), copies_(std::move(copies)), dense_(dense) {}

Status PlanWork::make_copies(int count) {
  if (dense_) SPARSMITH_RETURN_IF_ERROR(executor_.prepare_dense(*dense_));
  SPARSMITH_RETURN_IF_ERROR(copies_->make(count));
  while (static_cast<int>(bound_.size()) < count) {
    bindings_.packed = copies_->bindings(static_cast<int>(bound_.size()));
    SPARSMITH_ASSIGN_OR_RETURN(BoundPlan bound, executor_.bind(plan_, bindings_));
    bound_.push_back(std::move(bound));
  }
  return {};
}

Status PlanWork::enqueue(CUstream stream, int copy) {
  if (dense_) {
    bindings_.packed = copies_->bindings(copy);
    SPARSMITH_RETURN_IF_ERROR(executor_.enqueue_dense(*dense_, bindings_, stream));
  }
  return executor_.enqueue(bound_[copy], bindings_, stream);
}

}  // namespace sparsmith
