// The closure of a header: the headers that it includes, transitively, as one self-contained text. It follows from text
// alone, so that the generator (with the texts in the program) and snippetc (with the texts in the tree) find the same
// closure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sparsmith/status.h"

namespace sparsmith {

// An #include line of a header.
struct IncludeLine {
  std::string path;
  bool angled = false;       // <path>
  bool conditional = false;  // inside #if
  int line = 0;
};
std::vector<IncludeLine> include_lines(std::string_view source);

// Whether closures leave an include as it is. True for "emulator/...": headers of snippets/device/ include their twins
// if SPARSMITH_EMULATOR is defined, and the emulator supplies those files.
bool is_left_in_place(const IncludeLine& include);

// The text of the header at a path relative to the repository root; nullopt: there is no such header.
using HeaderLookup = std::function<std::optional<std::string_view>(std::string_view path)>;

// `headers` and all headers that they include, in include order, each once.
//   Error: kNotFound if a header is missing, with the place that includes it; kInvalidInput if headers include each
//   other in a circle, or if an include that the header's text would replace is angled or conditional.
Result<std::vector<std::string>> include_closure(std::span<const std::string> headers, const HeaderLookup& lookup);

// The text of include_closure(headers), with a line "// ---- path" before each header. `#pragma once` and the includes
// that are part of the text are left out.
Result<std::string> closure_text(std::span<const std::string> headers, const HeaderLookup& lookup);

// Hash of the source's tokens: comments and blanks do not change it, anything else does. 32 hexadecimal digits.
std::string closure_hash(std::string_view source);

// closure_hash() of each header's part of a text from closure_text(), by the header's path. The text behind the last
// header, a generated kernel's own lines, is under "this kernel".
std::map<std::string, std::string> header_hashes(std::string_view closure);

}  // namespace sparsmith
