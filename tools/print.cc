#include "tools/print.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "base/printable.h"

namespace sparsmith::tools {
namespace {

int first_error = 0;

}  // namespace

void print_text(std::string_view text) {
  const std::string shown = printable_lines(text);
  errno = 0;
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size() && first_error == 0) first_error = errno;
}

std::string json_line(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Status flush_output() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return {};
  const int error = first_error != 0 ? first_error : errno;
  return io_error(fmt::format("stdout cannot be written: {}; the output is incomplete",
                              error != 0 ? std::strerror(error) : "an unknown error"));
}

}  // namespace sparsmith::tools
