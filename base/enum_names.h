// Names of an enumeration's values, which count from 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

namespace sparsmith {

// The name of `value`: names[i] is the name of value i.
template <class Enum, std::size_t kCount>
constexpr std::string_view name_in(const std::string_view (&names)[kCount], Enum value) {
  return names[static_cast<std::size_t>(value)];
}

// The value of that name; no value for other names.
template <class Enum, std::size_t kCount>
constexpr std::optional<Enum> value_in(const std::string_view (&names)[kCount], std::string_view name) {
  const auto* const found = std::ranges::find(names, name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Enum>(found - std::begin(names));
}

}  // namespace sparsmith
