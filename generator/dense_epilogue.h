// Dense, as a candidate: the device's library multiplies and, where its epilogue is not ours, one kernel makes Y of W
// X.
#pragma once

#include "generator/candidate.h"
#include "runtime/operator_spec.h"
#include "sparsmith/status.h"

namespace sparsmith {

// On packing "dense" of the weight, whichever the operator's kind, config "dense": a matmul step alone where the
// library computes the whole operator, otherwise dense_epilogue().
Result<Candidate> dense_candidate(const OperatorSpec& spec);

// The same whatever the library computes: a matmul step that puts W X at the start of the workspace, and a kernel
// that applies alpha and the whole epilogue.
Result<Candidate> dense_epilogue(const OperatorSpec& spec);

}  // namespace sparsmith
