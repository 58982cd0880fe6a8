// Figures of a model's sparsity: zeros per layer, row lengths, where the nonzeros lie, bytes per format.
#pragma once

#include "tools/report/page.h"
#include "tools/report/results.h"

namespace sparsmith::tools {

// Most cells a side of a density map, and most weights whose maps and row lengths a page shows.
inline constexpr std::int64_t kMapCells = 128;
inline constexpr std::size_t kDetailedLayers = 12;

Section analysis_section(const LayerAnalysis& analysis);

}  // namespace sparsmith::tools
