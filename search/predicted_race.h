// Candidates where nothing can be timed: what predictions choose is checked on the emulator.
#pragma once

#include "search/weight_tuner.h"

namespace sparsmith {

// REQUIRES: as DeviceSearch, the contender's packing, and that it waits. It then counts as timed, with its prediction
// as the time, or is rejected. Its kernels are compiled, where there is a compiler, so that none that spills much is
// chosen.
//   Error: the emulator is gone.
Status verify_predicted(const TuneContext& context, MeasurementLog& log, Contender& contender);

}  // namespace sparsmith
