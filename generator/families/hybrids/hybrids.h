// Hybrids: families for weights that are nearly structured (formats/hybrid.h). A structured family multiplies the
// blocks, or two of four columns; a last kernel adds the products of the rest (snippets/kernels/add_rest.cuh has the
// device side). For many tokens.
//
// Elements that the weight does not hold contribute nothing to the results, even if X holds Inf or NaN.
#pragma once

#include "generator/family.h"

namespace sparsmith {

// The statistics of a weight's structured part. `block`: as in HybridPacking, one of SparsityStatistics::kBlockSizes
// or 0. Blocks stand at drawn places.
SparsityStatistics structured_statistics(const SparsityStatistics& statistics, std::int64_t block);

const Family& bsr_wgmma_rest_family();
const Family& bsr_strips_rest_family();
const Family& two_four_wgmma_rest_family();

}  // namespace sparsmith
