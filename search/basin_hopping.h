// Basin hopping over configs: a local search whose steps change one parameter (Wales and Doye, J. Phys. Chem. A 1997).
#pragma once

#include <cstdint>
#include <memory>

#include "search/strategy.h"

namespace sparsmith {

// Starts at the best prediction of each family; from the best of these it descends: a few untried neighbours at a
// time, nearest first (by the number of parameters that differ) and of equally near ones the best predicted, and moves
// where one is faster. Where none of a few is, it hops to a drawn config some parameters away, or of another family,
// and from there goes on as Metropolis accepts.
std::unique_ptr<Strategy> make_basin_hopping(const SearchPoints& points, std::uint64_t seed);

}  // namespace sparsmith
