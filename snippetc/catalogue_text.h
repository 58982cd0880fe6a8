// The text of the catalogue's two files that are checked in.
#pragma once

#include <span>
#include <string>

#include "snippetc/catalogue_build.h"

namespace sparsmith::snippetc {

constexpr std::string_view kDataPath = "generator/catalogue_data.inc";
constexpr std::string_view kPagePath = "docs/internals/snippets.md";

// constexpr tables for generator/catalogue.cc, one statement per line.
std::string data_text(std::span<const CataloguedSnippet> snippets);

// docs/internals/snippets.md: the catalogue for readers.
std::string page_text(std::span<const CataloguedSnippet> snippets);

}  // namespace sparsmith::snippetc
