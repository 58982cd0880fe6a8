// What snippetc says about a header that breaks a rule: "snippets/prolog/x.cuh:12: message".
#pragma once

#include <compare>
#include <string>
#include <vector>

namespace sparsmith::snippetc {

struct Finding {
  std::string file;  // relative to the repository root
  int line = 0;      // 1-based
  std::string message;

  std::string text() const { return file + ":" + std::to_string(line) + ": " + message; }
  auto operator<=>(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

}  // namespace sparsmith::snippetc
