// A short probe of a device's speeds.
#pragma once

#include "generator/candidate.h"
#include "runtime/launch_plan.h"

namespace sparsmith {

// The kernel of the probe (snippets/kernels/shared_reads.cuh). It is compiled like any other kernel.
Result<KernelSource> speed_probe_kernel();

// A launch of the kernel on every multiprocessor. Packed arrays: "words", kSpeedProbeBytes; "found", 4 bytes, set to 1
// when all bits of a 16-byte word are set. Each block reads `bytes` of "words": kSpeedProbeBytes, or 0 for an empty
// kernel.
constexpr std::int64_t kSpeedProbeBytes = std::int64_t{8} << 20;  // L2 is several times larger
LaunchPlan speed_probe_plan(int sm_count, std::int64_t bytes);

}  // namespace sparsmith
