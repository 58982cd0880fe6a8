// From a tree of headers to the catalogue.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/snippetc/findings.h"
#include "tools/snippetc/snippet_facts.h"
#include "tools/snippetc/source_tree.h"

namespace sparsmith::snippetc {

// A snippet that keeps every rule, with what it needs.
struct CataloguedSnippet {
  SnippetFacts facts;
  std::string brief;
  std::vector<std::string> closure;
  std::string closure_hash;
};

// The catalogue's snippets, sorted by name. Empty where a rule is broken: then `findings` says so, sorted by place.
std::vector<CataloguedSnippet> build_catalogue(const SourceTree& tree, Findings& findings);

}  // namespace sparsmith::snippetc
