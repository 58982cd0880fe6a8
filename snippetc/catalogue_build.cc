#include "snippetc/catalogue_build.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "generator/source_closure.h"
#include "snippetc/checks.h"
#include "snippetc/snippet_reader.h"

namespace sparsmith::snippetc {
namespace {

// REQUIRES: check_includes() found nothing, so that every header has a closure.
CataloguedSnippet catalogued(const SourceTree& tree, const SnippetFacts& snippet, std::span<const SnippetFacts> all) {
  const HeaderLookup lookup = [&tree](std::string_view path) { return tree.find(path); };
  const std::array<std::string, 1> headers = {snippet.header};
  return {.facts = snippet,
          .brief = brief_of(snippet, all),
          .closure_hash = closure_hash(closure_text(headers, lookup).value())};
}

void sort_by_place(Findings& findings) {
  std::ranges::sort(findings);
  const auto repeated = std::ranges::unique(findings);
  findings.erase(repeated.begin(), repeated.end());
}

}  // namespace

std::vector<CataloguedSnippet> build_catalogue(const SourceTree& tree, Findings& findings) {
  check_includes(tree, findings);
  if (!findings.empty()) {  // what clang would say then follows from it
    sort_by_place(findings);
    return {};
  }
  check_machine_words(tree, findings);
  std::vector<SnippetFacts> all;
  for (const auto& [path, text] : tree.files()) {
    if (path.starts_with("snippets/")) std::ranges::move(read_snippets(tree, path, findings), std::back_inserter(all));
  }
  check_contracts(all, findings);
  sort_by_place(findings);
  if (!findings.empty()) return {};

  std::vector<CataloguedSnippet> snippets;
  for (const SnippetFacts& snippet : all) {
    if (snippet.has_role) snippets.push_back(catalogued(tree, snippet, all));
  }
  std::ranges::sort(snippets, {}, [](const CataloguedSnippet& snippet) { return snippet.facts.name; });
  return snippets;
}

}  // namespace sparsmith::snippetc
