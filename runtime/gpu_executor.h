// Runs launch plans on a GPU, with the driver API and the device's primary context. The tuner's worker and tests use
// it; programs that run tuned files use TunedModel.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/bound_plan.h"
#include "runtime/cuda_context.h"
#include "runtime/dense_matmul.h"
#include "runtime/executor.h"
#include "runtime/kernel_module.h"

namespace sparsmith {

// One thread at a time, like every Executor.
class GpuExecutor : public Executor {
 public:
  // Error: kNoDevice, with advice, when there is no driver or no such device.
  static Result<std::unique_ptr<GpuExecutor>> create(int ordinal);
  ~GpuExecutor() override;

  const DeviceProperties& properties() const override { return context_->properties(); }
  Result<DeviceAddress> allocate(std::size_t bytes) override;
  Status free(DeviceAddress address) override;
  Status write(DeviceAddress to, std::span<const std::byte> from) override;
  Status read(std::span<std::byte> to, DeviceAddress from) override;
  Status fill(DeviceAddress to, std::byte value, std::size_t bytes) override;
  Status copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) override;
  // Loading the same name and code again raises the limit of shared memory to the larger of both. Loading other code
  // under the same name replaces the kernel. REQUIRES: no plan is bound to the replaced kernel.
  Status load(const KernelImage& kernel) override;
  Status run(const LaunchPlan& plan, const LaunchBindings& bindings) override;
  void limit_runs(std::chrono::milliseconds limit) override { run_limit_ = limit; }

  // Resolves a plan against the loaded kernels, `bindings.packed` and its facts. The bound plan is valid while these
  // exist.
  Result<BoundPlan> bind(const LaunchPlan& plan, const LaunchBindings& bindings);

  // Puts the plan on `stream` and does not wait. The stream may be captured.
  Status enqueue(const LaunchPlan& plan, const LaunchBindings& bindings, CUstream stream);
  Status enqueue(const BoundPlan& plan, const LaunchBindings& bindings, CUstream stream);

  const CudaContext& context() const { return *context_; }
  const CudaDriver& driver() const { return context_->driver(); }
  CUstream stream() const { return stream_; }  // the stream of run()

 private:
  struct Loaded {
    std::string hash;  // of the cubin
    std::unique_ptr<KernelModule> module;
  };

  // Opens the library and allocates its scratch memory. Error: kNoDevice when the library is missing.
  Result<std::shared_ptr<const DenseMatmul>> matmul_of(const OperatorSpec& spec);

  // Waits until the stream is done or run_limit_ is over.
  Status wait(const std::string& what);

  // Takes freed memory, or else asks the driver. Driver calls for memory are slow: they wait for those of other
  // processes.
  Result<DeviceBuffer> take(std::size_t bytes);

  explicit GpuExecutor(std::shared_ptr<const CudaContext> context) : context_(std::move(context)) {}

  std::shared_ptr<const CudaContext> context_;
  CUstream stream_ = nullptr;
  std::chrono::milliseconds run_limit_{0};
  std::map<DeviceAddress, DeviceBuffer> buffers_;
  std::multimap<std::size_t, DeviceBuffer> spare_;  // freed buffers by size; together at most kMostSpareBytes
  std::size_t spare_bytes_ = 0;
  std::map<std::string, Loaded> kernels_;
  std::shared_ptr<const DenseMatmul> matmul_;  // for the operator that was bound last; null until needed
  DeviceBuffer matmul_scratch_;
};

}  // namespace sparsmith
