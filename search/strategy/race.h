// The race, the default strategy:
//
//   1. The baseline, then the selected points, with a few samples each.
//   2. Two waves of further points. The samples correct the predictions of the whole space; a wave takes the points
//   that
//      may beat the best.
//   3. With the last wave, and up to two more times: points that differ from the best in one parameter.
//   4. More samples for the points near the best, if these are too many for the final.
#pragma once

#include <memory>

#include "search/strategy/strategy.h"

namespace sparsmith {

// `points` outlives the strategy.
std::unique_ptr<Strategy> make_race(const SearchPoints& points);

}  // namespace sparsmith
