#include "tools/interrupt.h"

#include <atomic>
#include <csignal>

namespace sparsmith::tools {
namespace {

std::atomic<bool> asked{false};
static_assert(std::atomic<bool>::is_always_lock_free, "it is set in a signal handler");

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = [](int) { asked = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return asked; }

}  // namespace sparsmith::tools
