// Makes text of unknown origin safe for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace sparsmith {

// `text` with control characters, bytes that are not UTF-8, and characters that change the writing direction spelled
// out, for example as \x1b or \u202e. So names in files cannot move the cursor or hide text.
std::string printable(std::string_view text);

// The same, but line breaks and tabs are kept.
std::string printable_lines(std::string_view text);

}  // namespace sparsmith
