// Faults of the machine: a program that cannot start or is killed by somebody else, a full disk, no memory for a
// process. They say nothing about the kernel or the candidate that was at work, so they are no verdict on it.
#pragma once

#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

// Whether an error of a compiler, a worker or a device session is the machine's.
inline bool is_environment_fault(const Status& error) {
  return error.code() == StatusCode::kIoError || error.code() == StatusCode::kNoDevice;
}

// In a worker's error of the code kOutOfMemory: candidates need next to none beside that of their weight and N.
inline constexpr std::string_view kTooLittleHostMemory = "not enough host memory";

// How often the same work is given to a fresh child where a child before it was lost to the machine.
inline constexpr int kEnvironmentAttempts = 3;

}  // namespace sparsmith
