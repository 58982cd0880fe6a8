// Ctrl-C as a request: work in progress is finished and recorded. A second Ctrl-C ends the program at once.
#pragma once

#include <chrono>
#include <optional>

namespace sparsmith::tools {

void catch_interrupts();
bool interrupted();
std::optional<std::chrono::steady_clock::time_point> interrupted_at();

}  // namespace sparsmith::tools
