// A short probe of what a device reaches.
#pragma once

#include "generator/candidate.h"
#include "runtime/launch_plan.h"

namespace sparsmith {

// The kernel of the probe (snippets/kernels/shared_reads.cuh), to be compiled as any other.
Result<KernelSource> speed_probe_kernel();

// A launch of it on every multiprocessor. Packed array "words": kSpeedProbeBytes; "found": 4 bytes, which become 1
// where all bits of a word of 16 bytes are set. `bytes` of each are read by each block: kSpeedProbeBytes, or 0, which
// makes it a kernel that does nothing.
constexpr std::int64_t kSpeedProbeBytes = std::int64_t{8} << 20;  // of which L2 has a multiple
LaunchPlan speed_probe_plan(int sm_count, std::int64_t bytes);

}  // namespace sparsmith
