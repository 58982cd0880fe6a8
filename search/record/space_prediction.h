// Predictions of this version's cost models for recorded spaces.
#pragma once

#include "matrix/sparsity_statistics.h"
#include "search/record/recorded_space.h"

namespace sparsmith {

// Replaces each candidate's prediction by this version's. `statistics`: of the space's weight. The device is a typical
// one of the recorded compute capability, with the recorded bandwidth.
//   Error: kUnsupported for a family, a parameter or a device that this version does not know; nothing is changed.
Status predict_again(RecordedSpace& space, const SparsityStatistics& statistics);

}  // namespace sparsmith
