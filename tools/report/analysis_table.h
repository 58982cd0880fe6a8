// Sparsity statistics as text for a terminal.
#pragma once

#include <string>
#include <vector>

#include "matrix/model_analysis.h"

namespace sparsmith::tools {

// The format with the smallest size, for values in the weight's own type.
SparsityStatistics::FormatBytes smallest_format(const SparsityStatistics& statistics);

// The structure that the weight has or nearly has, "2:4", "b32 + 1.2 %"; "-": none.
std::string structure_text(const SparsityStatistics& statistics);

// How many nonzeros blocks of each size hold, and N of M columns.
std::string structure_table(const std::string& name, const SparsityStatistics& statistics);

// One line a weight, and one for their sum.
std::string analysis_table(const ModelFile& file, const std::vector<AnalyzedWeight>& weights);

// One line with a bar for each bin of row lengths.
std::string row_length_histogram(const std::string& name, const SparsityStatistics& statistics);

// The index of the first bin that is not empty.
std::size_t first_filled_bin(const std::vector<std::int64_t>& histogram);

// The lengths in a bin of SparsityStatistics::row_length_histogram: "0", "1", "2-3", "4-7", ...
std::string histogram_bin_label(std::size_t bin);

}  // namespace sparsmith::tools
