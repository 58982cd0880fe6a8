// Text of unknown origin for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace sparsmith {

// `text` with each control character, each byte that is no UTF-8 and each character that changes the direction of
// writing spelled out, as \x1b or \u202e: names in files cannot move the cursor or hide what follows.
std::string printable(std::string_view text);

// The same, but lines stay lines, and tabs tabs.
std::string printable_lines(std::string_view text);

}  // namespace sparsmith
