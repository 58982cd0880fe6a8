// CUDA C++ text as preprocessing tokens. The scanner is just enough to tell code from comments in headers that we ship
// and kernels that we emit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sparsmith {

struct SourceToken {
  enum class Kind : std::uint8_t {
    kIdentifier,
    kNumber,
    kString,     // with prefix and suffix; raw strings too
    kCharacter,  // with prefix and suffix
    kPunctuator,
    kDirectiveBegin,  // the '#' that opens a preprocessing directive
    kDirectiveEnd,    // where the directive's last line ends; its text is empty
  };
  Kind kind = Kind::kPunctuator;
  std::string text;       // line continuations removed, except in raw strings
  int line = 0;           // 1-based: the line where the token begins
  std::size_t begin = 0;  // bytes [begin, end) of the source
  std::size_t end = 0;
  bool after_blank = false;  // a blank, comment or line break stands before it
};

// Comments, line continuations, string and character literals (raw ones, prefixes, suffixes) and digit separators are
// read as in C++. A digraph is two tokens. Never fails: an unterminated literal ends with its line, an unterminated
// comment or raw string with the source.
std::vector<SourceToken> scan_source(std::string_view source);

// The tokens as text. Two sources have the same text if and only if they have the same tokens.
std::string normalized_source(std::string_view source);

}  // namespace sparsmith
