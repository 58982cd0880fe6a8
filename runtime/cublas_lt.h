// cuBLASLt, opened at run time: a table of the functions that a dense product needs. Internal.
//
// The table is filled once and is read-only after that. Any thread may call through it.
#pragma once

#include <cublasLt.h>

#include <string_view>

#include "sparsmith/status.h"

namespace sparsmith {

// The header's inline ..._Init functions call the functions named _internal. They set up a descriptor in the caller's
// memory, so a product allocates nothing.
#define SPARSMITH_CUBLAS_LT_FUNCTIONS(X)                                \
  X(Create, cublasLtCreate)                                             \
  X(Destroy, cublasLtDestroy)                                           \
  X(Matmul, cublasLtMatmul)                                             \
  X(MatmulAlgoGetHeuristic, cublasLtMatmulAlgoGetHeuristic)             \
  X(MatmulAlgoCheck, cublasLtMatmulAlgoCheck)                           \
  X(MatmulDescInit, cublasLtMatmulDescInit_internal)                    \
  X(MatmulDescSetAttribute, cublasLtMatmulDescSetAttribute)             \
  X(MatrixLayoutInit, cublasLtMatrixLayoutInit_internal)                \
  X(MatmulPreferenceInit, cublasLtMatmulPreferenceInit_internal)        \
  X(MatmulPreferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute) \
  X(GetVersion, cublasLtGetVersion)

struct CublasLt {
#define SPARSMITH_CUBLAS_LT_MEMBER(member, symbol) \
  decltype(&::symbol) member = nullptr;  // NOLINT(bugprone-macro-parentheses)
  SPARSMITH_CUBLAS_LT_FUNCTIONS(SPARSMITH_CUBLAS_LT_MEMBER)
#undef SPARSMITH_CUBLAS_LT_MEMBER

  // Ok, or an error that names the call and the status: kUnsupported when the library reports that, else kDeviceError.
  static Status check(cublasStatus_t status, std::string_view what);
};

// The table, opened on the first call. Error: kNoDevice when the library is missing, with advice.
Result<const CublasLt*> cublas_lt();

}  // namespace sparsmith
