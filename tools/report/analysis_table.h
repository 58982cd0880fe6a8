// Sparsity statistics as text for a terminal.
#pragma once

#include <string>
#include <vector>

#include "matrix/model_analysis.h"

namespace sparsmith::tools {

// The smallest of the formats' sizes, values in the weight's own type.
SparsityStatistics::FormatBytes smallest_format(const SparsityStatistics& statistics);

// "1.5 MiB", "812 B".
std::string readable_bytes(std::int64_t bytes);

// One line a weight, and one for their sum.
std::string analysis_table(const ModelFile& file, const std::vector<AnalyzedWeight>& weights);

// One line a bin of row lengths, with a bar.
std::string row_length_histogram(const std::string& name, const SparsityStatistics& statistics);

// Lengths in a bin of SparsityStatistics::row_length_histogram: "0", "1", "2-3", "4-7", ...
std::string histogram_bin_label(std::size_t bin);

}  // namespace sparsmith::tools
