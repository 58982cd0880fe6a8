// The race: a few samples for each selected point, those of the baseline in a batch of their own. What they say about
// the predictions then brings in others of the whole space, in small waves, as long as these may be hoped to beat the
// best; the last one, and a few behind it, bring those, too, that differ from the best in one parameter. Last, once,
// more samples for those that are not clearly slower, where they are too many for the final.
#pragma once

#include <memory>

#include "search/strategy.h"

namespace sparsmith {

// `points` outlives the strategy.
std::unique_ptr<Strategy> make_race(const SearchPoints& points);

}  // namespace sparsmith
