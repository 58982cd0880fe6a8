#include "snippetc/catalogue_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace sparsmith::snippetc {
namespace {

// As a C++ string literal, of a name or a path.
std::string quoted(std::string_view text) { return fmt::format("\"{}\"", text); }

std::string role_constant(std::string_view role) {
  std::string name(role);
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return "SnippetRole::k" + name;
}

const TuneFacts* tuning_of(const SnippetFacts& snippet, const std::string& parameter) {
  const auto found = std::ranges::find(snippet.tuned, parameter, &TuneFacts::parameter);
  return found == snippet.tuned.end() ? nullptr : &*found;
}

// The arrays of a snippet go to `text`; its own entry, which refers to them, is returned.
std::string snippet_entry(const CataloguedSnippet& snippet, std::string& text) {
  const SnippetFacts& facts = snippet.facts;
  std::string parameters;
  for (const ParameterFacts& parameter : facts.parameters) {
    const TuneFacts* tune = tuning_of(facts, parameter.name);
    if (tune == nullptr) continue;
    const std::string values = fmt::format("k{}_{}", facts.name, parameter.name);
    text += fmt::format("constexpr std::int64_t {}[] = {{{}}};\n", values, fmt::join(tune->values, ", "));
    parameters += fmt::format("    {{{}, {}}},\n", quoted(parameter.name), values);
  }
  const std::string tuned = parameters.empty() ? "{}" : fmt::format("k{}_tuned", facts.name);
  if (!parameters.empty()) text += fmt::format("constexpr TunedParameter {}[] = {{\n{}}};\n", tuned, parameters);
  return fmt::format("    {{{}, {}, {}, {}, {}}},\n", quoted(facts.name), role_constant(facts.role),
                     quoted(facts.header), tuned, quoted(snippet.closure_hash));
}

// Inside a table cell.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string snippet_section(const CataloguedSnippet& snippet) {
  const SnippetFacts& facts = snippet.facts;
  std::string text =
      fmt::format("### {}\n\n{}\n\n[{}](../../{})\n\n", facts.name, snippet.brief, facts.header, facts.header);
  if (!facts.parameters.empty()) {
    text += "| parameter | type | tuned values |\n|---|---|---|\n";
    for (const ParameterFacts& parameter : facts.parameters) {
      const TuneFacts* tune = tuning_of(facts, parameter.name);
      const std::string values = tune == nullptr ? "" : fmt::format("{}", fmt::join(tune->values, ", "));
      const std::string with_default = parameter.default_text.empty()
                                           ? parameter.type
                                           : fmt::format("{} = {}", parameter.type, parameter.default_text);
      text += fmt::format("| `{}` | `{}` | {} |\n", parameter.name, cell(with_default), values);
    }
    text += '\n';
  }
  for (const ConstraintFacts& constraint : facts.constraints) {
    text += fmt::format("- requires `{}`: {}\n", constraint.expression, constraint.reason);
  }
  if (!facts.shared_bytes.empty()) text += fmt::format("- shared memory, bytes: `{}`\n", facts.shared_bytes);
  if (!facts.constraints.empty() || !facts.shared_bytes.empty()) text += '\n';
  return text;
}

}  // namespace

std::string data_text(std::span<const CataloguedSnippet> snippets) {
  std::string text =
      "// What the snippets state about themselves. Written by snippetc from snippets/**/*.cuh; do not edit: build "
      "the\n"
      "// target update_catalogue instead.\n"
      "// clang-format off\n";
  std::string entries;
  for (const CataloguedSnippet& snippet : snippets) entries += snippet_entry(snippet, text);
  text += fmt::format("\nconstexpr std::array<Snippet, {}> kSnippets = {{{{\n{}}}}};\n", snippets.size(), entries);
  return text + "// clang-format on\n";
}

std::string page_text(std::span<const CataloguedSnippet> snippets) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kRoles = {{
      {"prolog", "Prologs: bring W and X from memory"},
      {"reduction", "Reductions: multiply and accumulate"},
      {"epilog", "Epilogs: scale, bias, activation, residual, convert, store"},
      {"kernel", "Kernels: compose the others"},
  }};
  std::string text =
      "# Snippets\n\n"
      "The parts that generated kernels are made of, with what each states about itself. Written by snippetc from the\n"
      "headers; do not edit: build the target `update_catalogue` instead.\n\n";
  for (const auto& [role, title] : kRoles) {
    text += fmt::format("## {}\n\n", title);
    for (const CataloguedSnippet& snippet : snippets) {
      if (snippet.facts.role == role) text += snippet_section(snippet);
    }
  }
  text.pop_back();
  return text;
}

}  // namespace sparsmith::snippetc
