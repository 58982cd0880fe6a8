// The race where nothing can be timed: candidates in the order of their prediction, checked on the emulator until a few
// have passed.
#pragma once

#include <vector>

#include "search/weight_tuner.h"

namespace sparsmith {

// REQUIRES: as DeviceSearch, and the packings of the contenders. Contenders that pass count as timed, with their
// prediction as the time; the ones behind them stay waiting. Kernels are compiled, where there is a compiler, so that
// none that spills much is chosen.
//   Error: the emulator is gone.
Status run_predicted_race(const TuneContext& context, MeasurementLog& log, std::vector<Contender>& contenders);

}  // namespace sparsmith
