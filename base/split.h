#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace sparsmith {

// The pieces of a text between any of the separators, also empty pieces.
inline std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> pieces;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

}  // namespace sparsmith
