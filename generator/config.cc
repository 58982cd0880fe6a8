#include "generator/config.h"

#include <fmt/format.h>

#include <charconv>

namespace sparsmith {

std::int64_t Config::at(std::string_view parameter) const {
  const auto found = values.find(parameter);
  return found == values.end() ? 0 : found->second;
}

std::string Config::text() const {
  std::string text = family;
  for (const auto& [parameter, value] : values) text += fmt::format(" {}={}", parameter, value);
  return text;
}

Result<Config> Config::parse(std::string_view text) {
  Config config;
  std::size_t at = text.find(' ');
  config.family = text.substr(0, at);
  if (config.family.empty() || config.family.find('=') != std::string::npos)
    return invalid_input(fmt::format("config '{}': expected 'family name=value ...'", text));
  while (at != std::string_view::npos) {
    const std::size_t end = text.find(' ', at + 1);
    const std::string_view pair = text.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
    const std::size_t equals = pair.find('=');
    std::int64_t value = 0;
    const char* last = pair.data() + pair.size();
    const char* first = equals == std::string_view::npos ? last : pair.data() + equals + 1;
    const auto [stop, error] = std::from_chars(first, last, value);
    if (equals == 0 || first == last || error != std::errc() || stop != last)
      return invalid_input(fmt::format("config '{}': '{}' is not 'name=value'", text, pair));
    if (!config.values.emplace(pair.substr(0, equals), value).second)
      return invalid_input(fmt::format("config '{}': '{}' is given twice", text, pair.substr(0, equals)));
    at = end;
  }
  return config;
}

std::size_t parameters_between(const Config& a, const Config& b) {
  std::size_t differing = 0;
  for (const auto& [name, value] : a.values) {
    const auto found = b.values.find(name);
    differing += found == b.values.end() || found->second != value ? 1 : 0;
  }
  return differing;
}

}  // namespace sparsmith
