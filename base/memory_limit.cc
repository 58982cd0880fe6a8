#include "base/memory_limit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace sparsmith {

std::int64_t default_max_memory(const char* group_limit) {
  std::int64_t bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::int64_t group = 0;  // stays so where the file says "max"
  std::ifstream file(group_limit);
  file >> group;
  if (group > 0) bytes = std::min(bytes, group);
  return bytes / 2;
}

Status check_memory(std::string_view what, double bytes, std::int64_t max_bytes) {
  if (bytes <= static_cast<double>(max_bytes)) return {};
  return out_of_memory(fmt::format("{} takes {:.0f} bytes of memory, and {} are allowed; --max-memory allows more",
                                   what, bytes, max_bytes));
}

}  // namespace sparsmith
