// Limits the memory for the weights of a file: a small file may claim to hold more than the machine's memory.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

inline constexpr std::int64_t kNoMemoryLimit = std::numeric_limits<std::int64_t>::max();

// Half of the machine's memory, or half of the limit of the process's control group if that is smaller.
//   group_limit: a file that contains the limit in bytes, or "max".
std::int64_t default_max_memory(const char* group_limit = "/sys/fs/cgroup/memory.max");

// Error: kOutOfMemory when `bytes` exceeds `max_bytes`. The message has both numbers and the option that raises the
// limit.
Status check_memory(std::string_view what, double bytes, std::int64_t max_bytes);

}  // namespace sparsmith
