// The cost models of this version on spaces that were recorded with others.
#pragma once

#include "matrix/sparsity_statistics.h"
#include "search/recorded_space.h"

namespace sparsmith {

// Puts this version's prediction in the place of each candidate's. `statistics` are those of the space's weight; the
// device is a typical one of the recorded one's compute capability, with the bandwidth that was measured.
//   Error: kUnsupported for a family, a parameter or a device that this version does not know; nothing is changed.
Status predict_again(RecordedSpace& space, const SparsityStatistics& statistics);

}  // namespace sparsmith
