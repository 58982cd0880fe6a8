// Rules that a header's text alone decides. One rule, one check.
#pragma once

#include <string_view>

#include "tools/snippetc/findings.h"
#include "tools/snippetc/source_tree.h"

namespace sparsmith::snippetc {

// Headers include headers of the tree, each once and unconditionally, and never in a circle: neither CUDA's nor the
// system's. Those of snippets/device/ may include the emulator's twin, each its own.
void check_includes(const SourceTree& tree, Findings& findings);

// Only snippets/device/ names the machine: inline assembly, thread indices, atomics, and any word that begins with two
// underscores, as CUDA's keywords and intrinsics do.
void check_machine_words(const SourceTree& tree, Findings& findings);

// Whether check_machine_words() reports `word`.
bool is_machine_word(std::string_view word);

}  // namespace sparsmith::snippetc
