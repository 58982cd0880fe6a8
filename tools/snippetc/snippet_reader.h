// Reads snippet headers with clang: as CUDA device code, with the annotations of SPARSMITH_CATALOGUE, and without any
// header of CUDA or the system.
#pragma once

#include <string>
#include <vector>

#include "tools/snippetc/findings.h"
#include "tools/snippetc/snippet_facts.h"
#include "tools/snippetc/source_tree.h"

namespace sparsmith::snippetc {

// What the classes of `header` state, in order of appearance. `findings` gets clang's errors, and every use of a CUDA
// name that is not the machine word of check_machine_words(): expf, memcpy, ...
std::vector<SnippetFacts> read_snippets(const SourceTree& tree, const std::string& header, Findings& findings);

// Compiles a self-contained kernel source as far as its syntax and types; `findings` gets clang's errors, with `name`
// as the file.
void check_syntax(const std::string& name, const std::string& source, Findings& findings);

}  // namespace sparsmith::snippetc
