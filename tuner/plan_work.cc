#include "tuner/plan_work.h"

#include <utility>

namespace sparsmith {
namespace {

std::vector<DeviceCopies::Array> arrays_of(const DevicePacking& packing) {
  std::vector<DeviceCopies::Array> arrays;
  const std::vector<LaunchBindings::Packed> bindings = packing.bindings();
  for (std::size_t i = 0; i < bindings.size(); ++i)
    arrays.push_back({bindings[i].address, packing.packed().arrays[i].bytes.size()});
  return arrays;
}

}  // namespace

PackingCopies::PackingCopies(GpuExecutor& executor, const DevicePacking& packing)
    : packing_(packing), copies_(executor, arrays_of(packing)), bindings_{packing.bindings()} {}

Status PackingCopies::make(int count) {
  SPARSMITH_RETURN_IF_ERROR(copies_.make(count));
  for (int copy = this->count(); copy < copies_.count(); ++copy) {
    std::vector<LaunchBindings::Packed> arrays = bindings_.front();
    for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i].address = copies_.address(copy, i);
    bindings_.push_back(std::move(arrays));
  }
  return {};
}

PlanWork::PlanWork(GpuExecutor& executor, const LaunchPlan& plan, LaunchBindings bindings,
                   std::shared_ptr<PackingCopies> copies)
    : executor_(executor), plan_(plan), bindings_(std::move(bindings)), copies_(std::move(copies)) {}

Status PlanWork::make_copies(int count) {
  SPARSMITH_RETURN_IF_ERROR(copies_->make(count));
  while (static_cast<int>(bound_.size()) < count) {
    bindings_.packed = copies_->bindings(static_cast<int>(bound_.size()));
    SPARSMITH_ASSIGN_OR_RETURN(BoundPlan bound, executor_.bind(plan_, bindings_));
    bound_.push_back(std::move(bound));
  }
  return {};
}

Status PlanWork::enqueue(CUstream stream, int copy) { return executor_.enqueue(bound_[copy], bindings_, stream); }

}  // namespace sparsmith
