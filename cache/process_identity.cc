#include "cache/process_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

namespace sparsmith {
namespace {

// 0 when there is no such process.
std::int64_t start_time_of(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  // The command name in parentheses may hold blanks and parentheses; field 3 follows the last one.
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string field;
  constexpr int kStartTime = 22;
  for (int number = 3; number < kStartTime; ++number) fields >> field;
  std::int64_t start_time = 0;
  fields >> start_time;
  return start_time;
}

std::string host_identity() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> name_space{};
  if (readlink("/proc/self/ns/pid", name_space.data(), name_space.size() - 1) < 0) name_space[0] = 0;
  return fmt::format("{} {} {}", name.data(), boot, name_space.data());
}

}  // namespace

ProcessIdentity ProcessIdentity::current() { return {host_identity(), getpid(), start_time_of(getpid())}; }

bool ProcessIdentity::alive() const {
  const std::int64_t now = start_time_of(pid);
  return now != 0 && now == start_time;
}

}  // namespace sparsmith
