// The snippet catalogue: what the snippets under snippets/ state about themselves, and their text.
//
// It has two parts. The statements (roles, tuned values, constraints, hashes) are found by snippetc, which reads the
// headers with clang, and are checked in (generator/catalogue_data.inc), so that building needs no LLVM. The header
// texts are put into the program by the build itself, so they never lag behind the tree; a test compares the
// hashes of both parts.
//
// Everything here is constant and may be read from any thread.
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

// A template parameter of a snippet.
struct SnippetParameter {
  enum class Kind : std::uint8_t { kValue, kType, kTemplate };
  std::string_view name;  // "kVectorWidth"
  Kind kind = Kind::kValue;
  std::string_view type;                 // "int", "class", "template"
  std::string_view default_text;         // as written; empty: none
  std::span<const std::int64_t> values;  // what SPARSMITH_TUNE allows, as written; empty: not tuned
};

// A static_assert of a snippet.
struct SnippetConstraint {
  std::string_view expression;  // as written: "kVectorWidth * sizeof(Index) <= 16"
  std::string_view reason;      // "one load is at most 16 bytes"
};

// A class template (or class) with a role.
struct Snippet {
  std::string_view name;  // without its namespace, sparsmith
  SnippetRole role = SnippetRole::kKernel;
  std::string_view header;  // "snippets/prolog/csr_row.cuh"
  std::string_view brief;   // the first sentence or paragraph of its comment
  std::span<const SnippetParameter> parameters;
  std::span<const SnippetConstraint> constraints;
  std::string_view shared_bytes;  // kSharedBytes, or "(cols): ..." for shared_bytes(cols), as written; empty: none
  std::span<const std::string_view> closure;  // the headers it needs, itself last, in include order
  std::string_view closure_hash;              // closure_hash() of the closure's source
};

// A header that generated kernels may be made of. `path` is relative to the repository root.
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

  // The values that SPARSMITH_TUNE allows for a parameter; "kLanes" finds kLanes_ as well, the template parameter that
  // a snippet passes on as its member kLanes.
  //   Error: kNotFound when there is no such snippet or parameter, or it is not tuned.
  Result<std::span<const std::int64_t>> values_of(std::string_view snippet, std::string_view parameter) const;

  // The text of `headers` and of all they include, in include order, each once, with a line
  // "// ---- snippets/prolog/x.cuh" before each; without `#pragma once` and the includes that are so replaced.
  //   Error: kNotFound when a header is not in the catalogue; kInvalidInput when headers include each other in a
  //   circle.
  Result<std::string> closure_source(std::span<const std::string> headers) const;

 private:
  std::span<const Snippet> snippets_;
  std::span<const SnippetHeader> headers_;
};

// The catalogue of this build.
const Catalogue& catalogue();

// values_of() of it: those of a family's parameter that a snippet tunes. REQUIRES: the snippet tunes it.
std::vector<std::int64_t> tuned(std::string_view snippet, std::string_view parameter);

}  // namespace sparsmith
