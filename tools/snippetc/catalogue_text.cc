#include "tools/snippetc/catalogue_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace sparsmith::snippetc {
namespace {

// As a C++ string literal.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string_view kind_name(SnippetParameter::Kind kind) {
  switch (kind) {
    case SnippetParameter::Kind::kValue: return "SnippetParameter::Kind::kValue";
    case SnippetParameter::Kind::kType: return "SnippetParameter::Kind::kType";
    case SnippetParameter::Kind::kTemplate: return "SnippetParameter::Kind::kTemplate";
  }
  return "";
}

std::string role_constant(std::string_view role) {
  std::string name(role);
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return "SnippetRole::k" + name;
}

const TuneFacts* tuning_of(const SnippetFacts& snippet, const std::string& parameter) {
  const auto found = std::ranges::find(snippet.tuned, parameter, &TuneFacts::parameter);
  return found == snippet.tuned.end() ? nullptr : &*found;
}

// A constexpr array; an empty one needs no name: {} stands for it.
class ArrayWriter {
 public:
  explicit ArrayWriter(std::string& text) : text_(text) {}

  std::string write(std::string_view type, const std::string& name, const std::vector<std::string>& entries) {
    if (entries.empty()) return "{}";
    text_ += fmt::format("constexpr {} {}[] = {{\n", type, name);
    for (const std::string& entry : entries) text_ += fmt::format("    {},\n", entry);
    text_ += "};\n";
    return name;
  }

 private:
  std::string& text_;
};

std::string parameter_entry(const SnippetFacts& snippet, const ParameterFacts& parameter, std::string& text) {
  std::string values = "{}";
  if (const TuneFacts* tune = tuning_of(snippet, parameter.name)) {
    values = fmt::format("k{}_{}values", snippet.name, parameter.name + (parameter.name.ends_with('_') ? "" : "_"));
    text += fmt::format("constexpr std::int64_t {}[] = {{{}}};\n", values, fmt::join(tune->values, ", "));
  }
  return fmt::format("{{{}, {}, {}, {}, {}}}", quoted(parameter.name), kind_name(parameter.kind),
                     quoted(parameter.type), quoted(parameter.default_text), values);
}

// The arrays of a snippet go to `text`; its own entry, which refers to them, is returned.
std::string snippet_entry(const CataloguedSnippet& snippet, std::string& text) {
  const SnippetFacts& facts = snippet.facts;
  text += fmt::format("\n// ---- {}: {}\n", facts.name, facts.header);
  ArrayWriter arrays(text);
  std::vector<std::string> entries;
  for (const ParameterFacts& parameter : facts.parameters) entries.push_back(parameter_entry(facts, parameter, text));
  const std::string parameters = arrays.write("SnippetParameter", fmt::format("k{}_parameters", facts.name), entries);
  entries.clear();
  for (const ConstraintFacts& constraint : facts.constraints) {
    entries.push_back(fmt::format("{{{}, {}}}", quoted(constraint.expression), quoted(constraint.reason)));
  }
  const std::string constraints =
      arrays.write("SnippetConstraint", fmt::format("k{}_constraints", facts.name), entries);
  entries.clear();
  for (const std::string& header : snippet.closure) entries.push_back(quoted(header));
  const std::string closure = arrays.write("std::string_view", fmt::format("k{}_closure", facts.name), entries);

  return fmt::format("    {{{},\n     {},\n     {},\n     {},\n     {},\n     {},\n     {},\n     {},\n     {}}},\n",
                     quoted(facts.name), role_constant(facts.role), quoted(facts.header), quoted(snippet.brief),
                     parameters, constraints, quoted(facts.shared_bytes), closure, quoted(snippet.closure_hash));
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
      fmt::format("### {}\n\n{}\n\n[{}](../{})\n\n", facts.name, snippet.brief, facts.header, facts.header);
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
