// The matmul step of a launch plan on the CPU, in place of the device's library.
#pragma once

#include "emulator/device_memory.h"
#include "runtime/executor.h"

namespace sparsmith {

// Runs `step` on the operator `bindings.spec`, with sums in fp64. Errors: kNotFound if an array is missing;
// kUnsupported for an epilogue that the library does not have; those of DeviceMemory.
Status emulated_matmul(const PlanStep& step, const LaunchBindings& bindings, DeviceMemory& memory);

}  // namespace sparsmith
