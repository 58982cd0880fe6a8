// Reads snippet headers with clang: as CUDA device code, with the annotations of SPARSMITH_CATALOGUE, without headers
// of CUDA or the system.
#pragma once

#include <string>
#include <vector>

#include "snippetc/snippet_facts.h"
#include "snippetc/source_tree.h"

namespace sparsmith::snippetc {

// The statements of the classes of `header`, in order of appearance. `findings` gets clang's errors, and every use of a
// CUDA name that check_machine_words() does not report: expf, memcpy, ...
std::vector<SnippetFacts> read_snippets(const SourceTree& tree, const std::string& header, Findings& findings);

// Checks the syntax and types of a self-contained kernel source. `findings` gets clang's errors, with `name` as the
// file.
void check_syntax(const std::string& name, const std::string& source, Findings& findings);

}  // namespace sparsmith::snippetc
