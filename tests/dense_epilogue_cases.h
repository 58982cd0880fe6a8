// Drawn cases of the kernel behind a dense product, and an executor that makes the product on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernel_cases.h"

namespace sparsmith::test {

// Every type, layout and activation, with drawn bias, beta and residual; `weights` weights each, as kernels' cases have
// them. Configs are empty.
std::vector<KernelCase> draw_dense_epilogue_cases(std::uint64_t seed, int weights);

// An executor that hands everything to another one, but for dense products: those it computes itself, in fp64.
class HostProductExecutor : public Executor {
 public:
  explicit HostProductExecutor(Executor& executor) : executor_(executor) {}

  const DeviceProperties& properties() const override { return executor_.properties(); }
  Result<DeviceAddress> allocate(std::size_t bytes) override { return executor_.allocate(bytes); }
  Status free(DeviceAddress address) override { return executor_.free(address); }
  Status write(DeviceAddress to, std::span<const std::byte> from) override { return executor_.write(to, from); }
  Status read(std::span<std::byte> to, DeviceAddress from) override { return executor_.read(to, from); }
  Status fill(DeviceAddress to, std::byte value, std::size_t bytes) override {
    return executor_.fill(to, value, bytes);
  }
  Status copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) override {
    return executor_.copy(to, from, bytes);
  }
  Status load(const KernelImage& kernel) override { return executor_.load(kernel); }
  Status run(const LaunchPlan& plan, const LaunchBindings& bindings) override { return executor_.run(plan, bindings); }
  Status multiply_dense(const OperatorSpec& spec, const LaunchBindings& bindings) override;

 private:
  Executor& executor_;
};

// As run_case(), on a HostProductExecutor of `executor`.
Status run_dense_epilogue_case(const KernelCase& test_case, Executor& executor, const ImageOf& image_of);

}  // namespace sparsmith::test
