#include "base/log.h"

#define SPDLOG_FMT_EXTERNAL
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>

#include "base/printable.h"

namespace sparsmith {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created =
        std::make_shared<spdlog::logger>("sparsmith", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    created->set_pattern("%^%l%$: %v");
    return created;
  }();
  return *instance;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  constexpr std::array levels = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err};
  return levels.at(static_cast<std::size_t>(level));
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(spdlog_level(level)); }
void log_line(LogLevel level, std::string_view line) { logger().log(spdlog_level(level), "{}", printable_lines(line)); }

}  // namespace sparsmith
