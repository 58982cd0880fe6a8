// The catalogue as the two files that are checked in.
#pragma once

#include <span>
#include <string>

#include "tools/snippetc/catalogue_build.h"

namespace sparsmith::snippetc {

constexpr std::string_view kDataPath = "generator/catalogue_data.inc";
constexpr std::string_view kPagePath = "docs/snippets.md";

// constexpr tables for generator/catalogue.cc, one statement a line.
std::string data_text(std::span<const CataloguedSnippet> snippets);

// The same for people: docs/snippets.md.
std::string page_text(std::span<const CataloguedSnippet> snippets);

}  // namespace sparsmith::snippetc
