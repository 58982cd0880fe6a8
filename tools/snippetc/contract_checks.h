// Rules on what a snippet states. One rule, one check; each says in its message what to do.
#pragma once

#include <span>

#include "tools/snippetc/findings.h"
#include "tools/snippetc/snippet_facts.h"

namespace sparsmith::snippetc {

using ContractCheck = void (*)(std::span<const SnippetFacts> snippets, Findings& findings);

// A class of a role folder (prolog, reduction, epilog, kernels) has a SPARSMITH_ROLE; support code of a snippet is
// nested in it, or in a namespace inside sparsmith.
void check_has_role(std::span<const SnippetFacts> snippets, Findings& findings);

// The role is one of prolog, reduction, epilog, kernel.
void check_role_is_known(std::span<const SnippetFacts> snippets, Findings& findings);

// The role is that of the folder.
void check_role_matches_folder(std::span<const SnippetFacts> snippets, Findings& findings);

// A snippet has a comment: its own, or the header's when it is the only snippet there.
void check_has_comment(std::span<const SnippetFacts> snippets, Findings& findings);

// SPARSMITH_TUNE names a template parameter that is a value.
void check_tuned_is_parameter(std::span<const SnippetFacts> snippets, Findings& findings);

// The values of SPARSMITH_TUNE are integers, bools or enumerators, in ascending order.
void check_tuned_values(std::span<const SnippetFacts> snippets, Findings& findings);

// A static_assert gives its reason.
void check_constraint_has_reason(std::span<const SnippetFacts> snippets, Findings& findings);

// No two snippets share a name.
void check_names_are_unique(std::span<const SnippetFacts> snippets, Findings& findings);

// All of them.
std::span<const ContractCheck> contract_checks();

// What the catalogue says of a snippet in a sentence: the first paragraph of the header's comment when it is the only
// snippet there, otherwise of its own.
std::string brief_of(const SnippetFacts& snippet, std::span<const SnippetFacts> snippets);

}  // namespace sparsmith::snippetc
