// A linear layer on the host: the products of a sparse weight without a GPU. For correctness, tests and small models.
#pragma once

#include <cstdint>
#include <vector>

#include "matrix/csr_matrix.h"
#include "runtime/operator_spec.h"

namespace sparsmith::torch {

// Lines of elements of the operator's type.
struct HostLines {
  const void* data = nullptr;  // null: the operator has no such operand
  std::int64_t ld = 0;         // elements from one line to the next
};

// y[N][M] = activation(x[N][K] W^T + bias[M]) + residual[N][M], or as OperatorSpec has it for gated operators, summed
// in fp32 in the order of columns and rounded to the type once. `weight` is as multiplied() makes it for the spec's
// kind. REQUIRES: the spec is token_major and without beta, and multiplies the weight.
void host_linear(const CsrMatrix& weight, const OperatorSpec& spec, std::int64_t tokens, HostLines x, const void* bias,
                 HostLines residual, void* y);

// values[nnz] = the elements of dY[N][M]^T X[N][K] at the pattern, summed in fp64 and rounded to the type once.
void host_sampled(const SparsityPattern& pattern, DataType type, std::int64_t tokens, HostLines x, HostLines dy,
                  void* values);

// `count` numbers of the type `source`, rounded to `type`.
std::vector<float> rounded_values(const void* values, std::int64_t count, DataType source, DataType type);

// dense[M][K] of the weight's type.
void write_dense(const CsrMatrix& weight, DataType type, void* dense);

}  // namespace sparsmith::torch
