#include "tools/print.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/printable.h"
#include "tools/report/table.h"

namespace sparsmith::tools {
namespace {

int first_error = 0;

// With the sequences of styled(), where there are colours; any other control character is spelled out.
std::string shown_text(std::string_view text) {
  if (!has_colours()) return printable_lines(text);
  std::string shown;
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = text.find('\x1b', at)) != std::string_view::npos; ++at) {
    const auto style = std::ranges::find_if(kStyles, [&](auto each) { return text.substr(at).starts_with(each); });
    if (style == kStyles.end()) continue;
    shown += printable_lines(text.substr(begin, at - begin));
    shown += *style;
    begin = at + style->size();
  }
  return shown + printable_lines(text.substr(begin));
}

}  // namespace

void print_text(std::string_view text) {
  const std::string shown = shown_text(text);
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
