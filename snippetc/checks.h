// Rules on headers: some follow from the text alone, others from the statements of a snippet. Each rule has one check,
// whose message says what to do.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "snippetc/snippet_facts.h"
#include "snippetc/source_tree.h"

namespace sparsmith::snippetc {

// Headers include only headers of the tree, not those of CUDA or the system, each once and unconditionally, and never
// in a circle. Headers of snippets/device/ may also include their own emulator twin.
void check_includes(const SourceTree& tree, Findings& findings);

// Only snippets/device/ uses words of the machine: inline assembly, thread indices, atomics, and any word that begins
// with two underscores, such as CUDA's keywords and intrinsics.
void check_machine_words(const SourceTree& tree, Findings& findings);

// Whether check_machine_words() reports `word`.
bool is_machine_word(std::string_view word);

// Checks all rules on statements, for each of the snippets.
void check_contracts(std::span<const SnippetFacts> snippets, Findings& findings);

// The catalogue's sentence on a snippet: the first paragraph of the header's comment if the header has no other
// snippet, otherwise of the snippet's own comment.
std::string brief_of(const SnippetFacts& snippet, std::span<const SnippetFacts> snippets);

}  // namespace sparsmith::snippetc
