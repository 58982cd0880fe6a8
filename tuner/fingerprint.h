// Whether memory of a device has changed, found out without bringing it to the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generator/candidate.h"
#include "runtime/executor.h"
#include "tuner/device_allocation.h"

namespace sparsmith {

// The kernel, to be compiled as any other.
Result<KernelSource> fingerprint_kernel();

// Takes fingerprints. One thread at a time; the executor outlives it.
class Fingerprinter {
 public:
  // REQUIRES: `executor` has loaded the kernel.
  static Result<Fingerprinter> create(Executor& executor);

  struct Range {
    DeviceAddress address = 0;  // a multiple of 16
    std::size_t bytes = 0;
  };
  // Of all ranges together: equal for equal contents, and different for others but for one chance in 2^64.
  Result<std::uint64_t> of(std::span<const Range> ranges);

 private:
  explicit Fingerprinter(Executor& executor) : executor_(&executor) {}

  Executor* executor_;
  DeviceAllocation sums_;  // of blocks, range after range
};

}  // namespace sparsmith
