// The dense family: the device's library multiplies by the weight with all its zeros. If the library's epilogue is not
// the operator's, one kernel makes Y of W X (snippets/kernels/dense_epilogue.cuh). For sddmm the library computes the
// gradient at all places of the weight, and one kernel takes the weight's elements from it
// (snippets/kernels/dense_gather.cuh). All other families are compared with this one.
#pragma once

#include "generator/family.h"

namespace sparsmith {

const Family& dense_family();

// The candidate if the library computes less than the operator: the library's product, which goes to the start of the
// workspace, and a kernel that applies alpha and the whole epilogue.
Result<Candidate> dense_with_epilogue(const OperatorSpec& spec);

// The product of the device's library as the last steps of a plan, with what the library's epilogue lacks: also for
// families that write the dense weight to the workspace first. `config` has a value of proposal_parameter(). `product`:
// the step, which names its weight. dense_product_bytes(): a formula, the bytes at the start of the workspace that
// these steps use.
Parameter proposal_parameter(std::int64_t proposals);
std::int64_t proposal_of(const Config& config);
void add_dense_product(const Config& config, const Problem& problem, PlanStep product, PlannedKernels& kernels);
std::string dense_product_bytes(const OperatorSpec& spec);

// Microseconds of the operator by the library: predicted_dense_us(), and the epilogue that it lacks or sddmm's gather.
double predicted_dense_operator_us(const Problem& problem);

// Microseconds that cuBLASLt takes for Y = W X with a dense W, cold in cache, or for all of dY X^T: the largest of the
// times for moving the bytes, for the products, and for the chain of loads and sums, plus a launch.
double predicted_dense_us(const Problem& problem);

// Microseconds of the epilogue as a kernel behind the product: W X is written and read in fp32, the epilogue's operands
// are read, and there is a launch.
double predicted_dense_epilogue_us(const Problem& problem);

}  // namespace sparsmith
