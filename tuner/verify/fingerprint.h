// Fingerprints of device memory. They show changes without a copy to the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generator/candidate.h"
#include "runtime/executor.h"
#include "tuner/verify/device_allocation.h"

namespace sparsmith {

// The kernel. It is compiled like any other kernel.
Result<KernelSource> fingerprint_kernel();
constexpr const char* kFingerprintKernel = "sparsmith_fingerprint";

// Computes fingerprints. One thread at a time. The executor outlives the object.
class Fingerprinter {
 public:
  // REQUIRES: `executor` has loaded the kernel before of() is called.
  explicit Fingerprinter(Executor& executor) : executor_(executor) {}

  struct Range {
    DeviceAddress address = 0;  // a multiple of 16
    std::size_t bytes = 0;
  };
  // The fingerprint of all ranges together. Equal contents have equal fingerprints. Different contents have equal
  // fingerprints only with a probability of 2^-64.
  Result<std::uint64_t> of(std::span<const Range> ranges);

 private:
  Executor& executor_;
  DeviceAllocation sums_;  // one for each block, range after range
};

}  // namespace sparsmith
