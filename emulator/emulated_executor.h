// Runs launch plans on the CPU, from the kernels' own emitted text. It finds wrong kernels on a machine without a GPU,
// and reports what is wrong.
//
// The model. A kernel's text is compiled as C++ with device_twin/ in place of snippets/device/, and with every memory
// access instrumented. Blocks run one after another. Each thread of a block is a fiber that runs until it meets a
// barrier or shuffle. Device memory is memory of this process with a shadow, which records allocations, written bytes,
// and the last threads that touched each place. So the emulator reports what it sees and infers nothing, and the result
// does not depend on luck: it finds a data race whichever thread comes first (thread_block.h and access_checker.h list
// what is found).
//
// The limits. A fault on a path that the given input does not take is not found. Barriers alone order accesses
// (happens-before): there are no fences and no other memory model, and hand-made synchronisation through atomics and
// spinning is reported as a race. Launches never overlap; but accesses of a programmatic launch before its wait are
// reported. Arithmetic is the CPU's: fp32 with the same rounding, but expf and erff differ from the GPU's in the last
// bits. The emulator says nothing about time.
//
// Faults are kDeviceError. The memory stays as it was when the fault was found, and the executor stays usable. One
// thread at a time may use an executor; several executors may live and run on several OS threads.
#pragma once

#include <cstdint>
#include <memory>

#include "emulator/cpu_kernel_compiler.h"
#include "runtime/executor.h"

namespace sparsmith {

struct EmulatorOptions {
  // Null: the system's compiler.
  std::shared_ptr<CpuKernelCompiler> compiler = nullptr;
  // The emulated architecture: its limits are those of typical_device().
  int compute_capability = 90;
  std::uint64_t memory_bytes = std::uint64_t{8} << 30;
  // 0: threads run in order; otherwise this seed draws the order.
  std::uint64_t schedule_seed = 0;
  // Limits of one launch. A launch that exceeds them counts as one that does not end.
  std::uint64_t max_accesses = 20'000'000'000;
  std::uint64_t max_switches = 4'000'000'000;
};

// Error: kUnsupported if there is no compiler; kOutOfMemory if there is not enough address space.
Result<std::unique_ptr<Executor>> make_emulated_executor(const EmulatorOptions& options = {});

}  // namespace sparsmith
