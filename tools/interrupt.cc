#include "tools/interrupt.h"

#include <atomic>
#include <csignal>
#include <cstdint>

namespace sparsmith::tools {
namespace {

// By the steady clock, in nanoseconds; 0: nobody has asked.
std::atomic<std::int64_t> asked_at{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "it is set in a signal handler");

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = [](int) { asked_at = std::chrono::steady_clock::now().time_since_epoch().count(); };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return asked_at != 0; }

std::optional<std::chrono::steady_clock::time_point> interrupted_at() {
  const std::int64_t at = asked_at;
  if (at == 0) return std::nullopt;
  return std::chrono::steady_clock::time_point(std::chrono::steady_clock::duration(at));
}

}  // namespace sparsmith::tools
