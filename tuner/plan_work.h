// A candidate's launch plan as work to be timed.
#pragma once

#include <memory>
#include <vector>

#include "runtime/gpu_executor.h"
#include "tuner/device_copies.h"
#include "tuner/device_packing.h"
#include "tuner/timed_work.h"

namespace sparsmith {

// Copies of one packed weight on the GPU, shared by the candidates that read it. The executor and the packing outlive
// it.
class PackingCopies {
 public:
  PackingCopies(GpuExecutor& executor, const DevicePacking& packing);

  Status make(int count);
  // The arrays of copy `copy`; the packing's own for 0.
  const std::vector<LaunchBindings::Packed>& bindings(int copy) const { return bindings_[copy]; }
  int count() const { return static_cast<int>(bindings_.size()); }
  std::int64_t bytes() const { return packing_.packed().bytes(); }
  std::int64_t read_bytes() const { return packing_.packed().read_bytes(); }

 private:
  const DevicePacking& packing_;
  DeviceCopies copies_;
  std::vector<std::vector<LaunchBindings::Packed>> bindings_;
};

class PlanWork : public TimedWork {
 public:
  // The kernels of `plan` are loaded; plan and bindings' buffers outlive the work.
  PlanWork(GpuExecutor& executor, const LaunchPlan& plan, LaunchBindings bindings,
           std::shared_ptr<PackingCopies> copies);

  std::int64_t weight_bytes() const override { return copies_->bytes(); }
  std::int64_t read_bytes() const override { return copies_->read_bytes(); }
  int nodes() const override { return static_cast<int>(plan_.steps.size()); }
  Status make_copies(int count) override;
  Status enqueue(CUstream stream, int copy) override;

 private:
  GpuExecutor& executor_;
  const LaunchPlan& plan_;
  LaunchBindings bindings_;
  std::shared_ptr<PackingCopies> copies_;
  std::vector<BoundPlan> bound_;  // to each copy
};

}  // namespace sparsmith
