// Faults of the machine: a program that cannot start, a program that another process kills, a full disk, no memory for
// a process. The kernel or candidate at work is not at fault, so such an error is not recorded against it.
#pragma once

#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

// Whether an error of a compiler, a worker or a device session is a fault of the machine.
inline bool is_environment_fault(const Status& error) {
  return error.code() == StatusCode::kIoError || error.code() == StatusCode::kNoDevice;
}

// Part of a worker's kOutOfMemory error. The weight and N are the cause: a candidate itself needs almost no host
// memory.
inline constexpr std::string_view kTooLittleHostMemory = "not enough host memory";

// The number of children that try the same work when the machine's faults end them.
inline constexpr int kEnvironmentAttempts = 3;

}  // namespace sparsmith
