// The matmul step of a launch plan on the CPU, in place of the device's library.
#pragma once

#include "emulator/device_memory.h"
#include "runtime/executor.h"

namespace sparsmith {

// Runs `step`, whose sums are exact to fp64, on the operator `bindings.spec`. Error: kNotFound where there is no such
// array; kUnsupported for an epilogue that the library does not have; kDeviceError for memory that is not there.
Status emulated_matmul(const PlanStep& step, const LaunchBindings& bindings, DeviceMemory& memory);

}  // namespace sparsmith
