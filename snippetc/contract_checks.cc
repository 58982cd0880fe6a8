#include "snippetc/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "snippetc/source_tree.h"

namespace sparsmith::snippetc {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"prolog", "reduction", "epilog", "kernel"};

bool is_known_role(std::string_view role) { return std::ranges::find(kRoles, role) != kRoles.end(); }

// Its first paragraph, as one line.
std::string first_paragraph(const std::string& comment) {
  std::string paragraph = comment.substr(0, comment.find("\n\n"));
  std::ranges::replace(paragraph, '\n', ' ');
  return paragraph;
}

// The rules on one snippet of `all`. One rule, one check.
struct Contract {
  const SnippetFacts& snippet;
  std::span<const SnippetFacts> all;
  Findings& findings;

  template <class... Values>
  void report(int line, fmt::format_string<Values...> message, Values&&... values) const {
    findings.push_back({snippet.header, line, fmt::format(message, std::forward<Values>(values)...)});
  }

  // A class of a role folder (prolog, reduction, epilog, kernels) has a SPARSMITH_ROLE; support code of a snippet is
  // nested in it, or in a namespace inside sparsmith.
  void check_has_role() const {
    const std::string_view role = role_of_folder(snippet.header);
    if (snippet.has_role || snippet.is_nested_namespace || role.empty()) return;
    report(snippet.line,
           "{} has no role: write SPARSMITH_ROLE({}) in it, or move it into a namespace of its own if it is part of "
           "another snippet",
           snippet.name, role);
  }

  // The role is one of prolog, reduction, epilog, kernel, and that of the folder.
  void check_role() const {
    if (!snippet.has_role) return;
    const std::string_view role = role_of_folder(snippet.header);
    if (!is_known_role(snippet.role)) {
      report(snippet.role_line, "{} has the unknown role {}: it is one of {}", snippet.name, snippet.role,
             fmt::join(kRoles, ", "));
    } else if (snippet.role != role && !snippet.header.starts_with("snippets/ablation/")) {
      // (Those that take the place of others stand together, whatever these are.)
      const std::string place = role.empty() ? "no role folder" : fmt::format("the folder of role {}", role);
      report(snippet.role_line, "{} has role {}, but stands in {}", snippet.name, snippet.role, place);
    }
  }

  // A snippet has a comment: its own, or the header's when it is the only snippet there.
  void check_has_comment() const {
    if (!snippet.has_role || !brief_of(snippet, all).empty()) return;
    report(snippet.line, "{} has no comment: say above it what one thread loads, what it owns, where it ends up",
           snippet.name);
  }

  // SPARSMITH_TUNE names a template parameter that is a value. Its own values are integers, bools or enumerators, in
  // ascending order.
  void check_tuned(const TuneFacts& tune) const {
    const auto parameter = std::ranges::find(snippet.parameters, tune.parameter, &ParameterFacts::name);
    if (parameter == snippet.parameters.end()) {
      report(tune.line, "SPARSMITH_TUNE names {}, which is no template parameter of {}", tune.parameter, snippet.name);
    } else if (parameter->kind != ParameterFacts::Kind::kValue) {
      report(tune.line, "SPARSMITH_TUNE names {} of {}, which is a type: values are tuned", tune.parameter,
             snippet.name);
    }
    if (!tune.is_integral) {
      report(tune.line, "a value of {} is no integer, bool or enumerator that is known here", tune.parameter);
    } else if (tune.values.empty()) {
      report(tune.line, "{} has no values", tune.parameter);
    } else if (!std::ranges::is_sorted(tune.values, std::ranges::less_equal{})) {
      report(tune.line, "the values of {} are not in ascending order, each once", tune.parameter);
    }
  }

  // A static_assert gives its reason.
  void check_has_reason(const ConstraintFacts& constraint) const {
    if (!snippet.has_role || !constraint.reason.empty()) return;
    report(constraint.line, "static_assert({}) gives no reason: it is what people read when a config is ruled out",
           constraint.expression);
  }

  // No two snippets share a name.
  void check_name_is_unique() const {
    if (!snippet.has_role) return;
    const auto same_name = [&](const SnippetFacts& each) { return each.has_role && each.name == snippet.name; };
    const SnippetFacts& other = *std::ranges::find_if(all, same_name);
    if (&other == &snippet) return;
    report(snippet.line, "there is another snippet {}, at {}:{}", snippet.name, other.header, other.line);
  }
};

}  // namespace

void check_contracts(std::span<const SnippetFacts> snippets, Findings& findings) {
  for (const SnippetFacts& snippet : snippets) {
    const Contract contract{snippet, snippets, findings};
    contract.check_has_role();
    contract.check_role();
    contract.check_has_comment();
    for (const TuneFacts& tune : snippet.tuned) contract.check_tuned(tune);
    for (const ConstraintFacts& constraint : snippet.constraints) contract.check_has_reason(constraint);
    contract.check_name_is_unique();
  }
}

std::string brief_of(const SnippetFacts& snippet, std::span<const SnippetFacts> snippets) {
  const auto in_header = std::ranges::count_if(
      snippets, [&](const SnippetFacts& other) { return other.has_role && other.header == snippet.header; });
  const bool is_the_header = in_header == 1 && !snippet.header_comment.empty();
  return first_paragraph(is_the_header ? snippet.header_comment : snippet.comment);
}

}  // namespace sparsmith::snippetc
