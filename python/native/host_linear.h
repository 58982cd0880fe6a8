// A linear layer on the host: the product of a sparse weight without a GPU. For correctness, tests and small models.
#pragma once

#include <cstdint>

#include "matrix/csr_matrix.h"
#include "runtime/operator_spec.h"

namespace sparsmith::torch {

// Lines of elements of the operator's type.
struct HostLines {
  const void* data = nullptr;  // null: the operator has no such operand
  std::int64_t ld = 0;         // elements from one line to the next
};

// y[N][M] = activation(x[N][K] W^T + bias[M]) + residual[N][M], or as OperatorSpec has it for gated operators, summed
// in fp32 in the order of columns and rounded to the type once. REQUIRES: the spec is spmm, token_major and without
// beta.
void host_linear(const CsrMatrix& weight, const OperatorSpec& spec, std::int64_t tokens, HostLines x, const void* bias,
                 HostLines residual, void* y);

// dense[M][K] of the weight's type.
void write_dense(const CsrMatrix& weight, DataType type, void* dense);

}  // namespace sparsmith::torch
