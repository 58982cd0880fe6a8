// A place where launch plans run: a GPU, or the emulator on the CPU. Tuner and tests are written against
// this interface, so that both check and use exactly the same kernels and plans.
//
// One thread at a time. Addresses are device addresses: never dereferenced by the caller.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device_properties.h"
#include "runtime/launch_plan.h"
#include "runtime/operator_spec.h"
#include "sparsmith/status.h"

namespace sparsmith {

using DeviceAddress = std::uint64_t;

// A kernel as it is handed to an executor: the GPU takes the cubin, the emulator the source.
struct KernelImage {
  std::string name;  // of the entry point, and the key in plans
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
  NamedValues<DeviceAddress> operands;  // 0: of one that is not present
  DeviceAddress workspace = 0;
  IntegerVariables variables;
  NamedValues<float> scalars{{"alpha", 1.0F}, {"beta", 0.0F}};
  const OperatorSpec* spec = nullptr;  // the operator: what a matmul step computes. Null: plans have none
  DeviceAddress scratch = 0;           // DenseMatmul::kScratchBytes for matmul steps; executors bring their own
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual const DeviceProperties& properties() const = 0;

  // Device memory, aligned to 256 bytes, filled with 0xFF (a NaN in every floating type) so that what is
  // never written shows. The emulator reports every access outside of [address, address + bytes).
  virtual Result<DeviceAddress> allocate(std::size_t bytes) = 0;
  virtual Status free(DeviceAddress address) = 0;
  virtual Status write(DeviceAddress to, std::span<const std::byte> from) = 0;
  virtual Status read(std::span<std::byte> to, DeviceAddress from) = 0;
  virtual Status fill(DeviceAddress to, std::byte value, std::size_t bytes) = 0;
  // From one place of the device to another; they do not overlap.
  virtual Status copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) = 0;

  // Makes a kernel known under its name; a second call with the same name and contents does nothing.
  virtual Status load(const KernelImage& kernel) = 0;

  // Runs every step in order and waits. An error names the kernel; after a device error the executor may be
  // unusable (the caller's process is expected to be a worker that is thrown away).
  virtual Status run(const LaunchPlan& plan, const LaunchBindings& bindings) = 0;

  // How long the device may take over a run(), from now on: then it is given up with kDeviceError, and what runs runs
  // on, until its process ends. 0: as long as it likes. Only a GPU knows such limits.
  virtual void limit_runs(std::chrono::milliseconds /*limit*/) {}
};

}  // namespace sparsmith
