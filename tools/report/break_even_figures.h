// Break-even sparsity in figures.
#pragma once

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// Over N, the sparsity from which on a sparse kernel is chosen; and over sparsity, the speed-up over dense of all that
// was measured on the way there.
Section break_even_section(const BreakEvenResults& results);

}  // namespace sparsmith::tools
