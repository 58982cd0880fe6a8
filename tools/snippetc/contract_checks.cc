#include "tools/snippetc/contract_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "tools/snippetc/source_tree.h"

namespace sparsmith::snippetc {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"prolog", "reduction", "epilog", "kernel"};

bool is_known_role(std::string_view role) { return std::ranges::find(kRoles, role) != kRoles.end(); }

void report(Findings& findings, const SnippetFacts& snippet, int line, std::string message) {
  findings.push_back({snippet.header, line, std::move(message)});
}

// Its first paragraph, as one line.
std::string first_paragraph(const std::string& comment) {
  std::string paragraph = comment.substr(0, comment.find("\n\n"));
  std::ranges::replace(paragraph, '\n', ' ');
  return paragraph;
}

}  // namespace

void check_has_role(std::span<const SnippetFacts> snippets, Findings& findings) {
  for (const SnippetFacts& snippet : snippets) {
    const std::string_view role = role_of_folder(snippet.header);
    if (snippet.has_role || snippet.is_nested_namespace || role.empty()) continue;
    report(
        findings, snippet, snippet.line,
        fmt::format("{} has no role: write SPARSMITH_ROLE({}) in it, or move it into a namespace of its own if it is "
                    "part of another snippet",
                    snippet.name, role));
  }
}

void check_role_is_known(std::span<const SnippetFacts> snippets, Findings& findings) {
  for (const SnippetFacts& snippet : snippets) {
    if (!snippet.has_role || is_known_role(snippet.role)) continue;
    report(findings, snippet, snippet.role_line,
           fmt::format("{} has the unknown role {}: it is one of {}", snippet.name, snippet.role,
                       fmt::join(kRoles, ", ")));
  }
}

void check_role_matches_folder(std::span<const SnippetFacts> snippets, Findings& findings) {
  for (const SnippetFacts& snippet : snippets) {
    if (!snippet.has_role || !is_known_role(snippet.role)) continue;
    const std::string_view role = role_of_folder(snippet.header);
    // Those that take the place of others stand together, whatever these are.
    if (snippet.role == role || snippet.header.starts_with("snippets/ablation/")) continue;
    const std::string place = role.empty() ? "no role folder" : fmt::format("the folder of role {}", role);
    report(findings, snippet, snippet.role_line,
           fmt::format("{} has role {}, but stands in {}", snippet.name, snippet.role, place));
  }
}

void check_has_comment(std::span<const SnippetFacts> snippets, Findings& findings) {
  for (const SnippetFacts& snippet : snippets) {
    if (!snippet.has_role || !brief_of(snippet, snippets).empty()) continue;
    report(findings, snippet, snippet.line,
           fmt::format("{} has no comment: say above it what one thread loads, what it owns, where it ends up",
                       snippet.name));
  }
}

void check_tuned_is_parameter(std::span<const SnippetFacts> snippets, Findings& findings) {
  for (const SnippetFacts& snippet : snippets) {
    for (const TuneFacts& tune : snippet.tuned) {
      const auto parameter = std::ranges::find(snippet.parameters, tune.parameter, &ParameterFacts::name);
      if (parameter == snippet.parameters.end()) {
        report(
            findings, snippet, tune.line,
            fmt::format("SPARSMITH_TUNE names {}, which is no template parameter of {}", tune.parameter, snippet.name));
      } else if (parameter->kind != SnippetParameter::Kind::kValue) {
        report(findings, snippet, tune.line,
               fmt::format("SPARSMITH_TUNE names {} of {}, which is a type: values are tuned", tune.parameter,
                           snippet.name));
      }
    }
  }
}

void check_tuned_values(std::span<const SnippetFacts> snippets, Findings& findings) {
  for (const SnippetFacts& snippet : snippets) {
    for (const TuneFacts& tune : snippet.tuned) {
      if (!tune.is_integral) {
        report(findings, snippet, tune.line,
               fmt::format("a value of {} is no integer, bool or enumerator that is known here", tune.parameter));
      } else if (tune.values.empty()) {
        report(findings, snippet, tune.line, fmt::format("{} has no values", tune.parameter));
      } else if (!std::ranges::is_sorted(tune.values, std::ranges::less_equal{})) {
        report(findings, snippet, tune.line,
               fmt::format("the values of {} are not in ascending order, each once", tune.parameter));
      }
    }
  }
}

void check_constraint_has_reason(std::span<const SnippetFacts> snippets, Findings& findings) {
  for (const SnippetFacts& snippet : snippets) {
    for (const ConstraintFacts& constraint : snippet.constraints) {
      if (!snippet.has_role || !constraint.reason.empty()) continue;
      report(findings, snippet, constraint.line,
             fmt::format("static_assert({}) gives no reason: it is what people read when a config is ruled out",
                         constraint.expression));
    }
  }
}

void check_names_are_unique(std::span<const SnippetFacts> snippets, Findings& findings) {
  std::map<std::string_view, const SnippetFacts*> first;
  for (const SnippetFacts& snippet : snippets) {
    if (!snippet.has_role) continue;
    const auto [other, is_new] = first.emplace(snippet.name, &snippet);
    if (is_new) continue;
    report(
        findings, snippet, snippet.line,
        fmt::format("there is another snippet {}, at {}:{}", snippet.name, other->second->header, other->second->line));
  }
}

std::span<const ContractCheck> contract_checks() {
  static constexpr std::array<ContractCheck, 8> kChecks = {
      check_has_role,           check_role_is_known, check_role_matches_folder,   check_has_comment,
      check_tuned_is_parameter, check_tuned_values,  check_constraint_has_reason, check_names_are_unique};
  return kChecks;
}

std::string brief_of(const SnippetFacts& snippet, std::span<const SnippetFacts> snippets) {
  const auto in_header = std::ranges::count_if(
      snippets, [&](const SnippetFacts& other) { return other.has_role && other.header == snippet.header; });
  const bool is_the_header = in_header == 1 && !snippet.header_comment.empty();
  return first_paragraph(is_the_header ? snippet.header_comment : snippet.comment);
}

}  // namespace sparsmith::snippetc
