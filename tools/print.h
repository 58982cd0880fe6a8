// Prints text and JSON to stdout. Text may hold names of unknown origin, so control characters are spelled out.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/json_text.h"
#include "sparsmith/status.h"

namespace sparsmith::tools {

// Keeps lines and tabs; see printable_lines(). Does not change JSON.
void print_text(std::string_view text);

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}

// `json` as one line. Names of files and tensors may hold bytes that are not UTF-8. These are replaced, so the line is
// always valid JSON.
std::string json_line(const nlohmann::json& json);
std::string json_line(const nlohmann::ordered_json& json);

// Prints an object with its version. docs/reference/json.md has the members.
template <class Json>
void print_json(Json json) {
  json["schema_version"] = kJsonVersion;
  print_text(json_line(json) + "\n");
}

// Prints the object `json` if `as_json`, otherwise `text`.
template <class Json>
void print_result(bool as_json, const Json& json, const std::string& text) {
  if (as_json) print_json(json);
  if (!as_json) print_text(text);
}

// Flushes stdout. Error: kIoError when stdout is full or closed.
Status flush_output();

}  // namespace sparsmith::tools
