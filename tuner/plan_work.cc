#include "tuner/plan_work.h"

#include <utility>

namespace sparsmith {

PackingCopies::PackingCopies(GpuExecutor& executor, const DevicePacking& packing)
    : executor_(executor), packing_(packing), bindings_{packing.bindings()} {}

Status PackingCopies::make(int count) {
  const CudaDriver& driver = executor_.driver();
  while (this->count() < count) {
    std::vector<LaunchBindings::Packed> copy;
    for (std::size_t i = 0; i < bindings_.front().size(); ++i) {
      const LaunchBindings::Packed& original = bindings_.front()[i];
      const std::size_t bytes = packing_.packed().arrays[i].bytes.size();
      SPARSMITH_ASSIGN_OR_RETURN(DeviceAllocation buffer, DeviceAllocation::make(executor_, bytes));
      if (bytes > 0)
        SPARSMITH_RETURN_IF_ERROR(
            driver.check(driver.MemcpyDtoDAsync(buffer.address(), original.address, bytes, executor_.stream()),
                         "copying a packed weight"));
      copy.push_back({original.name, buffer.address()});
      buffers_.push_back(std::move(buffer));
    }
    bindings_.push_back(std::move(copy));
  }
  return driver.check(driver.StreamSynchronize(executor_.stream()), "copying a packed weight");
}

PlanWork::PlanWork(GpuExecutor& executor, const LaunchPlan& plan, LaunchBindings bindings,
                   std::shared_ptr<PackingCopies> copies, std::optional<OperatorSpec> dense)
    : executor_(executor),
      plan_(plan),
      bindings_(std::move(bindings)),
      copies_(std::move(copies)),
      dense_(std::move(dense)) {}

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
