// Runs launch plans on the CPU, from the kernels' own emitted text: what lets a machine without a GPU see wrong
// kernels, and tell how.
//
// The model. A kernel's text is compiled as C++ with device_twin/ in place of snippets/device/, every memory
// access instrumented. Blocks run one after another; each thread of a block is a fiber that runs until it meets a
// barrier or shuffle. Device memory is memory of this process with a shadow that knows what is allocated, what was
// written, and who touched what last. So what is reported is seen, not inferred, and does not depend on luck: a data
// race is found whichever thread came first (thread_block.h and access_checker.h say what is found).
//
// Its limits. A fault on a path that the given input does not take is not seen. Ordering is happens-before by
// barriers alone: there are no fences, no memory model beyond that, and hand-made synchronisation through atomics
// and spinning is reported as a race. Work of one launch never overlaps with that of another; but of a programmatic
// launch it is reported what it touches before it has waited. Arithmetic is the CPU's: fp32 with the same rounding, but
// expf and erff differ from the GPU's in the last bits. Nothing here says anything about time.
//
// Faults are kDeviceError; the memory stays as it was when the fault was found, and the executor stays usable.
// One thread at a time; several executors may live and run on several OS threads.
#pragma once

#include <cstdint>
#include <memory>

#include "emulator/cpu_kernel_compiler.h"
#include "runtime/executor.h"

namespace sparsmith {

struct EmulatorOptions {
  // Null: the compiler of the system.
  std::shared_ptr<CpuKernelCompiler> compiler = nullptr;
  // The architecture to pose as: its limits are those of typical_device().
  int compute_capability = 90;
  std::uint64_t memory_bytes = std::uint64_t{8} << 30;
  // 0: threads run in order; else the order is drawn from this seed.
  std::uint64_t schedule_seed = 0;
  // Of one launch; beyond, it counts as one that does not end.
  std::uint64_t max_accesses = 20'000'000'000;
  std::uint64_t max_switches = 4'000'000'000;
};

// Error: kUnsupported where there is no compiler; kOutOfMemory where address space cannot be had.
Result<std::unique_ptr<Executor>> make_emulated_executor(const EmulatorOptions& options = {});

}  // namespace sparsmith
