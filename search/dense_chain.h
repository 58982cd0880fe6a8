// Dense with an epilogue that cuBLASLt lacks: the product in fp32, and a kernel behind it. Beside candidates it races
// as one of them; afterwards it is what they are compared with.
#pragma once

#include "search/bucket.h"
#include "search/weight_tuner.h"

namespace sparsmith {

// Generates bucket.dense_candidate, where the operator has a dense choice. Where it is a chain, adds
// bucket.dense_chain; unless choices are only predicted, the chain becomes the first contender, so that a search that
// is cut short has tried it. `dense_bytes`: of the weight.
Status add_dense(const TuneContext& context, const OperatorSpec& spec, std::int64_t dense_bytes, Bucket& bucket);

// Ends the chain's race, if it is in one: bucket.dense_chain has its timing.
void take_dense_chain(Bucket& bucket);

// Sets what dense takes by the cost model, where nothing is timed.
void predict_dense(const Problem& problem, std::int64_t dense_bytes, Bucket& bucket);

}  // namespace sparsmith
