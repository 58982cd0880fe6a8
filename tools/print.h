// Printing to stdout. Text may hold names of unknown origin: what a terminal would obey is spelled out.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "sparsmith/status.h"

namespace sparsmith::tools {

// Lines and tabs stay; see printable_lines(). JSON stays JSON.
void print_text(std::string_view text);

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}

// What was printed has left the program. Error: kIoError where stdout is full or closed.
Status flush_output();

}  // namespace sparsmith::tools
