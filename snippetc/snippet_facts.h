// The statements of a snippet, as found in its header, and the findings on it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace sparsmith::snippetc {

// A message on a header that breaks a rule: "snippets/prolog/x.cuh:12: message".
struct Finding {
  std::string file;  // relative to the repository root
  int line = 0;      // 1-based
  std::string message;

  std::string text() const { return file + ":" + std::to_string(line) + ": " + message; }
  auto operator<=>(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

struct ParameterFacts {
  enum class Kind : std::uint8_t { kValue, kType, kTemplate };
  std::string name;
  Kind kind = Kind::kValue;
  std::string type;
  std::string default_text;
};

// A SPARSMITH_TUNE line.
struct TuneFacts {
  std::string parameter;
  std::vector<std::int64_t> values;
  bool is_integral = true;  // every value is an integer constant
  int line = 0;
};

// A static_assert.
struct ConstraintFacts {
  std::string expression;
  std::string reason;  // empty: the constraint has no reason
  int line = 0;
};

// A class template or class at the level of a namespace.
struct SnippetFacts {
  std::string name;
  std::string header;
  int line = 0;
  bool is_nested_namespace = false;  // in a namespace inside sparsmith: support code, a snippet only if it has a role
  bool has_role = false;
  std::string role;  // as written
  int role_line = 0;
  std::string comment;         // the comment of the class itself
  std::string header_comment;  // the comment that opens the header
  std::vector<ParameterFacts> parameters;
  std::vector<TuneFacts> tuned;
  std::vector<ConstraintFacts> constraints;
  std::string shared_bytes;
};

}  // namespace sparsmith::snippetc
