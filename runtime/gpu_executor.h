// Launch plans on a GPU, over the driver API and the device's primary context. Used by the tuner's worker and by
// tests; programs that run tuned files use TunedModel.
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

// One thread at a time, as every Executor.
class GpuExecutor : public Executor {
 public:
  // Error: kNoDevice when there is no driver or no such device, with what to do.
  static Result<std::unique_ptr<GpuExecutor>> create(int ordinal);
  ~GpuExecutor() override;

  const DeviceProperties& properties() const override { return context_->properties(); }
  Result<DeviceAddress> allocate(std::size_t bytes) override;
  Status free(DeviceAddress address) override;
  Status write(DeviceAddress to, std::span<const std::byte> from) override;
  Status read(std::span<std::byte> to, DeviceAddress from) override;
  Status fill(DeviceAddress to, std::byte value, std::size_t bytes) override;
  Status copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) override;
  // A kernel of the same name and code may be launched with the most shared memory that was asked for; one of other
  // code replaces the old one, and plans bound to the old one must be gone.
  Status load(const KernelImage& kernel) override;
  Status run(const LaunchPlan& plan, const LaunchBindings& bindings) override;
  void limit_runs(std::chrono::milliseconds limit) override { run_limit_ = limit; }

  // Resolves a plan against the loaded kernels, `bindings.packed` and its facts. It is good while those stay.
  Result<BoundPlan> bind(const LaunchPlan& plan, const LaunchBindings& bindings);

  // Puts the plan on `stream` and does not wait; may be called while the stream is captured.
  Status enqueue(const LaunchPlan& plan, const LaunchBindings& bindings, CUstream stream);
  Status enqueue(const BoundPlan& plan, const LaunchBindings& bindings, CUstream stream);

  const CudaContext& context() const { return *context_; }
  const CudaDriver& driver() const { return context_->driver(); }
  CUstream stream() const { return stream_; }  // the one that run() uses

 private:
  struct Loaded {
    std::string hash;  // of the cubin
    std::unique_ptr<KernelModule> module;
  };

  // Opens the library and takes its scratch memory. Error: kNoDevice when the library is missing.
  Result<std::shared_ptr<const DenseMatmul>> matmul_of(const OperatorSpec& spec);

  // Until the stream is done, or run_limit_ over.
  Status wait(const std::string& what);

  // From what was freed, or from the driver, whose calls for memory wait for those of other processes.
  Result<DeviceBuffer> take(std::size_t bytes);

  explicit GpuExecutor(std::shared_ptr<const CudaContext> context) : context_(std::move(context)) {}

  std::shared_ptr<const CudaContext> context_;
  CUstream stream_ = nullptr;
  std::chrono::milliseconds run_limit_{0};
  std::map<DeviceAddress, DeviceBuffer> buffers_;
  std::multimap<std::size_t, DeviceBuffer> spare_;  // freed ones, by size, of kMostSpareBytes together at most
  std::size_t spare_bytes_ = 0;
  std::map<std::string, Loaded> kernels_;
  std::shared_ptr<const DenseMatmul> matmul_;  // of the operator that was bound last; null until it is needed
  DeviceBuffer matmul_scratch_;
};

Result<std::unique_ptr<Executor>> make_gpu_executor(int ordinal);

}  // namespace sparsmith
