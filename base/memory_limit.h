// How much memory the weights of a file may take: what a small file claims to hold may be larger than the machine.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

inline constexpr std::int64_t kNoMemoryLimit = std::numeric_limits<std::int64_t>::max();

// Half of the machine's memory, or of the limit of the process's control group where that is less.
//   group_limit: the file with the limit in bytes, or "max".
std::int64_t default_max_memory(const char* group_limit = "/sys/fs/cgroup/memory.max");

// Error: kOutOfMemory where `bytes` exceed `max_bytes`, with both and the option that raises the limit.
Status check_memory(std::string_view what, double bytes, std::int64_t max_bytes);

}  // namespace sparsmith
