// What follows a dense product where the library's epilogue is not ours: one kernel that makes Y of W X.
#pragma once

#include "generator/candidate.h"
#include "runtime/operator_spec.h"
#include "sparsmith/status.h"

namespace sparsmith {

// The candidate on packing "dense", config "dense_epilogue": whoever runs it has cuBLASLt put W X first, in fp32, in
// Y's layout without gaps, at the start of the workspace; the plan applies alpha and the whole epilogue.
Result<Candidate> dense_epilogue(const OperatorSpec& spec);

}  // namespace sparsmith
