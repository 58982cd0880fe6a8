// What a search found out, as a recorded space.
#pragma once

#include <cstdint>
#include <vector>

#include "matrix/sparsity_statistics.h"
#include "search/recorded_space.h"
#include "search/weight_tuner.h"

namespace sparsmith {

// Contenders that never had their turn are left out; the best of the baseline stands before the vendors. `considered`:
// configs of the space.
RecordedSpace recorded_space(const TuneContext& context, const WeightResult& weight, const OperatorSpec& spec,
                             const SparsityStatistics& statistics, std::int64_t tokens, std::int64_t considered,
                             const std::vector<Contender>& contenders, const std::vector<VendorTiming>& vendors);

}  // namespace sparsmith
