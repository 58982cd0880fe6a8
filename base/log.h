// The only logger. All lines go to stderr; stdout is for results. Libraries log nothing above debug level: they return
// a Status. Any thread may log.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace sparsmith {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines below this level are dropped. Default: kInfo.
void set_log_level(LogLevel level);
void log_line(LogLevel level, std::string_view line);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace sparsmith
