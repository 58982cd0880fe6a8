// What a snippet states, as it was found in its header: nothing is checked yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generator/catalogue.h"

namespace sparsmith::snippetc {

struct ParameterFacts {
  std::string name;
  SnippetParameter::Kind kind = SnippetParameter::Kind::kValue;
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
  std::string reason;  // empty: it has none
  int line = 0;
};

// A class template or class at the level of a namespace.
struct SnippetFacts {
  std::string name;
  std::string header;
  int line = 0;
  bool is_nested_namespace = false;  // in a namespace inside sparsmith: support code, no snippet unless it has a role
  bool has_role = false;
  std::string role;  // as written
  int role_line = 0;
  std::string comment;         // of the class itself
  std::string header_comment;  // that opens the header
  std::vector<ParameterFacts> parameters;
  std::vector<TuneFacts> tuned;
  std::vector<ConstraintFacts> constraints;
  std::string shared_bytes;
};

}  // namespace sparsmith::snippetc
