// An executor for tests of what surrounds kernels: memory is memory of this process, and a kernel is a C++ function
// chosen by its source.
//
// Sources: "csr"            the operator on the packed arrays "row_offsets" (int32), "columns" (uint32) and "values"
//                           (fp32), with its epilogue's bias; alpha and beta are applied
//          "past the end"   as csr, and one element behind y
//          "before"         as csr, and one element in front of the workspace
//          "dropped"        as csr, without the last row's last product
//          "padded"         as csr, plus 0 * x[0] in each sum
//          "changes x"      as csr, and x[0] becomes 1
//          "changes w"      as csr, and values[0] becomes 1
//          "fault"          fails with kDeviceError
//          "crash"          ends the process by a null pointer
//          "hang"           never returns
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/executor.h"

namespace sparsmith {

class FakeExecutor : public Executor {
 public:
  explicit FakeExecutor(bool is_emulator);

  const DeviceProperties& properties() const override { return properties_; }
  Result<DeviceAddress> allocate(std::size_t bytes) override;
  Status free(DeviceAddress address) override;
  Status write(DeviceAddress to, std::span<const std::byte> from) override;
  Status read(std::span<std::byte> to, DeviceAddress from) override;
  Status fill(DeviceAddress to, std::byte value, std::size_t bytes) override;
  Status copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) override;
  Status load(const KernelImage& kernel) override;
  Status run(const LaunchPlan& plan, const LaunchBindings& bindings) override;

  std::size_t live_buffers() const { return buffers_.size(); }

 private:
  DeviceProperties properties_;
  std::map<DeviceAddress, std::unique_ptr<std::byte[]>> buffers_;
  std::map<std::string, std::string> sources_;  // by kernel name
};

// A plan of one launch of `kernel` for token_major fp32 with `rows` rows, and the image of that kernel.
LaunchPlan fake_plan(const std::string& kernel, std::int64_t rows);
KernelImage fake_kernel(const std::string& name, const std::string& source);

}  // namespace sparsmith
