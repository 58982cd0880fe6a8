// Makes a recorded space of a search.
#pragma once

#include <cstdint>
#include <vector>

#include "matrix/sparsity_statistics.h"
#include "search/choice/tune_report.h"
#include "search/choice/tune_run.h"
#include "search/record/recorded_space.h"

namespace sparsmith {

// Untried trials are left out. The best baseline trial stands before the libraries. `considered`: configs of the space.
RecordedSpace recorded_space(const TuneRun& run, const WeightResult& weight, const OperatorSpec& spec,
                             const SparsityStatistics& statistics, std::int64_t tokens, std::int64_t considered,
                             const std::vector<Trial>& trials, const std::vector<VendorTiming>& vendors);

}  // namespace sparsmith
