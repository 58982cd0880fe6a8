#include "generator/source_closure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/hash.h"
#include "generator/source_tokens.h"

namespace sparsmith {
namespace {

using Kind = SourceToken::Kind;

// A preprocessing line: "include", "pragma once", ...
struct Directive {
  std::vector<SourceToken> tokens;  // behind the '#'
  std::size_t begin = 0;            // of the '#'
  std::size_t end = 0;              // of the line, before its line break
  int depth = 0;                    // of #if around it
  int line = 0;

  std::string_view word(std::size_t index) const {
    if (index >= tokens.size()) return {};
    return tokens[index].text;
  }
};

std::vector<Directive> directives(std::string_view source) {
  std::vector<Directive> found;
  int depth = 0;
  bool open = false;
  for (SourceToken& token : scan_source(source)) {
    if (token.kind == Kind::kDirectiveBegin) {
      found.push_back({.tokens = {}, .begin = token.begin, .end = token.end, .depth = depth, .line = token.line});
      open = true;
    } else if (token.kind == Kind::kDirectiveEnd) {
      Directive& directive = found.back();
      directive.end = token.begin;
      if (directive.word(0).starts_with("if")) ++depth;
      if (directive.word(0) == "endif") --depth;
      open = false;
    } else if (open) {
      found.back().tokens.push_back(std::move(token));
    }
  }
  return found;
}

std::optional<IncludeLine> as_include(const Directive& directive, std::string_view source) {
  if (directive.word(0) != "include" || directive.tokens.size() < 2) return std::nullopt;
  const SourceToken& target = directive.tokens[1];
  const SourceToken& last = directive.tokens.back();
  std::string_view text = source.substr(target.begin, last.end - target.begin);
  IncludeLine include;
  include.conditional = directive.depth > 0;
  include.line = directive.line;
  if (target.text == "<") {
    include.angled = true;
    text = text.substr(0, text.find('>') + 1);
  } else if (target.kind == Kind::kString) {
    text = target.text;
  }
  const bool quoted = include.angled || target.kind == Kind::kString;  // otherwise a macro, which stays as it is
  include.path = quoted && text.size() >= 2 ? text.substr(1, text.size() - 2) : text;
  return include;
}

// Depth-first walk over the includes.
class ClosureWalk {
 public:
  explicit ClosureWalk(const HeaderLookup& lookup) : lookup_(lookup) {}

  Status visit(const std::string& path, const std::string& from) {
    if (std::ranges::find(order_, path) != order_.end()) return {};
    if (const auto open = std::ranges::find(open_, path); open != open_.end()) {
      return invalid_input(fmt::format("{}: headers include each other in a circle: {} -> {}", from,
                                       fmt::join(open, open_.end(), " -> "), path));
    }
    const std::optional<std::string_view> text = lookup_(path);
    if (!text) {
      return not_found(from.empty() ? fmt::format("there is no header {}", path)
                                    : fmt::format("{}: there is no header {}", from, path));
    }
    open_.push_back(path);
    for (const IncludeLine& include : include_lines(*text)) {
      const std::string where = fmt::format("{}:{}", path, include.line);
      if (is_left_in_place(include)) continue;
      SPARSMITH_RETURN_IF_ERROR(check(include, where));
      SPARSMITH_RETURN_IF_ERROR(visit(include.path, where));
    }
    open_.pop_back();
    order_.push_back(path);
    return {};
  }

  std::vector<std::string> take_order() { return std::move(order_); }

 private:
  static Status check(const IncludeLine& include, const std::string& where) {
    if (include.angled) {
      return invalid_input(
          fmt::format("{}: includes <{}>: a generated kernel is compiled without a search path, so "
                      "that snippets include each other and nothing else",
                      where, include.path));
    }
    if (include.conditional) {
      return invalid_input(fmt::format(
          "{}: {} is included inside #if: a closure holds each header once, unconditionally", where, include.path));
    }
    return {};
  }

  const HeaderLookup& lookup_;
  std::vector<std::string> open_;
  std::vector<std::string> order_;
};

// `text` without `#pragma once`, the includes that the closure replaces, and the blank lines that they leave.
std::string without_replaced_lines(std::string_view text) {
  std::string result;
  std::size_t next = 0;
  for (const Directive& directive : directives(text)) {
    const std::optional<IncludeLine> include = as_include(directive, text);
    const bool once = directive.word(0) == "pragma" && directive.word(1) == "once";
    if (!once && (!include || is_left_in_place(*include))) continue;
    result += text.substr(next, directive.begin - next);
    next = std::min(directive.end + 1, text.size());
    if (result.empty() || result.ends_with("\n\n")) next = std::min(text.find_first_not_of('\n', next), text.size());
  }
  result += text.substr(next);
  const std::size_t last = result.find_last_not_of('\n');
  result.resize(last == std::string::npos ? 0 : last + 1);
  if (!result.empty()) result += '\n';
  return result;
}

}  // namespace

std::vector<IncludeLine> include_lines(std::string_view source) {
  std::vector<IncludeLine> includes;
  for (const Directive& directive : directives(source)) {
    if (std::optional<IncludeLine> include = as_include(directive, source)) includes.push_back(std::move(*include));
  }
  return includes;
}

bool is_left_in_place(const IncludeLine& include) { return !include.angled && include.path.starts_with("emulator/"); }

Result<std::vector<std::string>> include_closure(std::span<const std::string> headers, const HeaderLookup& lookup) {
  ClosureWalk walk(lookup);
  for (const std::string& header : headers) SPARSMITH_RETURN_IF_ERROR(walk.visit(header, ""));
  return walk.take_order();
}

Result<std::string> closure_text(std::span<const std::string> headers, const HeaderLookup& lookup) {
  SPARSMITH_ASSIGN_OR_RETURN(const std::vector<std::string> order, include_closure(headers, lookup));
  std::string text;
  for (const std::string& path : order) {
    if (!text.empty()) text += '\n';
    text += fmt::format("// ---- {}\n\n", path);
    text += without_replaced_lines(*lookup(path));
  }
  return text;
}

std::string closure_hash(std::string_view source) { return hash_text(normalized_source(source)); }

std::map<std::string, std::string> header_hashes(std::string_view closure) {
  constexpr std::string_view kMarker = "// ---- ";
  std::map<std::string, std::string> hashes;
  std::string name;
  std::size_t part = 0;  // where the part of `name` begins
  const auto end_part = [&](std::size_t end) {
    if (!name.empty()) hashes.emplace(name, closure_hash(closure.substr(part, end - part)));
  };
  for (std::size_t begin = 0; begin < closure.size();) {
    const std::size_t end = std::min(closure.find('\n', begin), closure.size());
    const std::string_view line = closure.substr(begin, end - begin);
    const std::string_view rest = line.starts_with(kMarker) ? line.substr(kMarker.size()) : "";
    // A heading inside a header has several words.
    if (!rest.empty() && (rest.find(' ') == std::string_view::npos || rest == "this kernel")) {
      end_part(begin);
      name = rest;
      part = end;
    }
    begin = end + 1;
  }
  end_part(closure.size());
  return hashes;
}

}  // namespace sparsmith
