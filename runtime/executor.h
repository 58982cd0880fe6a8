// An executor runs launch plans, on a GPU or on the emulator on the CPU. The tuner and the tests use this interface, so
// they check exactly the kernels and plans that are used.
//
// One thread at a time. Addresses are device addresses: the caller never dereferences them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/device_properties.h"
#include "runtime/launch_plan.h"
#include "runtime/operator_spec.h"
#include "sparsmith/status.h"

namespace sparsmith {

using DeviceAddress = std::uint64_t;

// A kernel for an executor. The GPU uses the cubin, the emulator uses the source.
struct KernelImage {
  std::string name;  // of the entry point; plans refer to the kernel by this name
  std::string source;
  std::vector<std::byte> cubin;
  std::int64_t max_shared_bytes = 0;  // dynamic shared memory that a launch may ask for
};

// Addresses and scalars of one run of a plan.
struct LaunchBindings {
  struct Packed {
    std::string name;
    DeviceAddress address;
  };
  std::vector<Packed> packed;
  NamedValues<DeviceAddress> operands;  // 0: the operand is not present
  DeviceAddress workspace = 0;
  IntegerVariables variables;
  NamedValues<float> scalars{{"alpha", 1.0F}, {"beta", 0.0F}};
  const OperatorSpec* spec = nullptr;  // the operator of matmul steps; null: the plan has no such step
  DeviceAddress scratch = 0;           // DenseMatmul::kScratchBytes for matmul steps; executors allocate it
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual const DeviceProperties& properties() const = 0;

  // Device memory, aligned to 256 bytes, filled with 0xFF (a NaN in every floating type) so that elements without a
  // write are visible. The emulator reports every access outside of [address, address + bytes).
  virtual Result<DeviceAddress> allocate(std::size_t bytes) = 0;
  virtual Status free(DeviceAddress address) = 0;
  virtual Status write(DeviceAddress to, std::span<const std::byte> from) = 0;
  virtual Status read(std::span<std::byte> to, DeviceAddress from) = 0;
  virtual Status fill(DeviceAddress to, std::byte value, std::size_t bytes) = 0;
  // Copies inside of the device. REQUIRES: the ranges do not overlap.
  virtual Status copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) = 0;

  // Loads a kernel under its name. A second call with the same name and contents does nothing.
  virtual Status load(const KernelImage& kernel) = 0;

  // Runs every step in order and waits. An error names the kernel. After a device error the executor may be unusable;
  // the calling process is a worker and is then replaced.
  virtual Status run(const LaunchPlan& plan, const LaunchBindings& bindings) = 0;

  // Limits the time of each later run() on the device. A run() over the limit returns kDeviceError; its kernel runs on
  // until it ends or the process ends. 0: no limit. Only a GPU has limits.
  virtual void limit_runs(std::chrono::milliseconds /*limit*/) {}
};

}  // namespace sparsmith
