// The snippet catalogue: the statements of the snippets under snippets/ about themselves, and their text.
//
// The catalogue has two parts. snippetc finds the statements (roles, tuned values, hashes) by reading the headers with
// clang. They are checked in (generator/catalogue_data.inc), so that building needs no LLVM. The build itself puts the
// header texts into the program, so they always match the tree. A test compares the hashes of both parts.
//
// Everything here is constant. Any thread may read it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/source_closure.h"  // closure_hash
#include "sparsmith/status.h"

namespace sparsmith {

enum class SnippetRole : std::uint8_t { kProlog, kReduction, kEpilog, kKernel };

// A template parameter of a snippet, with the values that SPARSMITH_TUNE allows, as written.
struct TunedParameter {
  std::string_view name;  // "kVectorWidth"
  std::span<const std::int64_t> values;
};

// A class template (or class) with a role. docs/internals/snippets.md has the other statements of it.
struct Snippet {
  std::string_view name;  // without its namespace sparsmith
  SnippetRole role = SnippetRole::kKernel;
  std::string_view header;  // "snippets/prolog/csr_row.cuh"
  std::span<const TunedParameter> tuned;
  std::string_view closure_hash;  // closure_hash() of the source of the headers that it includes
};

// A header that generated kernels may include. `path` is relative to the repository root.
struct SnippetHeader {
  std::string_view path;
  std::string_view text;
};

class Catalogue {
 public:
  Catalogue(std::span<const Snippet> snippets, std::span<const SnippetHeader> headers)
      : snippets_(snippets), headers_(headers) {}

  std::span<const Snippet> snippets() const { return snippets_; }      // sorted by name
  std::span<const SnippetHeader> headers() const { return headers_; }  // sorted by path

  const Snippet* find(std::string_view name) const;               // nullptr: there is none
  const SnippetHeader* find_header(std::string_view path) const;  // nullptr: there is none

  // The values that SPARSMITH_TUNE allows for a parameter. "kLanes" also finds kLanes_, the template parameter that a
  // snippet passes on as its member kLanes.
  //   Error: kNotFound if there is no such snippet, or if none of its SPARSMITH_TUNE lists has the parameter.
  Result<std::span<const std::int64_t>> values_of(std::string_view snippet, std::string_view parameter) const;

  // The text of `headers` and of all headers that they include, in include order, each once. A line "// ----
  // snippets/prolog/x.cuh" stands before each. `#pragma once` and the includes that the text replaces are left out.
  //   Error: kNotFound if a header is not in the catalogue; kInvalidInput if headers include each other in a circle.
  Result<std::string> closure_source(std::span<const std::string> headers) const;

 private:
  std::span<const Snippet> snippets_;
  std::span<const SnippetHeader> headers_;
};

// The catalogue of this build.
const Catalogue& catalogue();

// values_of() of this build's catalogue: the values of a family's parameter that a snippet tunes. REQUIRES: the snippet
// tunes it.
std::vector<std::int64_t> tuned(std::string_view snippet, std::string_view parameter);

}  // namespace sparsmith
