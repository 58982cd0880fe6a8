// Builds the catalogue from a tree of headers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "snippetc/snippet_facts.h"
#include "snippetc/source_tree.h"

namespace sparsmith::snippetc {

// A snippet that keeps every rule, with its catalogue data.
struct CataloguedSnippet {
  SnippetFacts facts;
  std::string brief;
  std::string closure_hash;
};

// The catalogue's snippets, sorted by name. If a rule is broken, the result is empty and `findings` says so, sorted by
// place.
std::vector<CataloguedSnippet> build_catalogue(const SourceTree& tree, Findings& findings);

}  // namespace sparsmith::snippetc
