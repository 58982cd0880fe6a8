#include "runtime/dense_matmul.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/cuda_data_type.h"

namespace sparsmith {
namespace {

template <class T>
const void* pointer(T address) {
  return reinterpret_cast<const void*>(address);
}

// The largest power of two, up to 256, that divides an address: what the heuristics may count on.
std::uint32_t alignment_of(DeviceAddress address) {
  return static_cast<std::uint32_t>(std::min<DeviceAddress>(address & (~address + 1), 256));
}

}  // namespace

// cuBLASLt's matrices are column-major. Y[N][M] row-major is D, M x N; so token_major is D = W^T' X with W[M][K]
// row-major seen as K x M and transposed; feature_major is Y[M][N] seen as N x M: D = X W with X as N x K, W as K x M.
// What multiplies the transposed weight, whose array is seen as M x K, transposes it where the other does not.
struct DenseMatmul::Product {
  DeviceAddress weight = 0;
  float alpha = 1;
  float beta = 0;
  DeviceAddress c = 0;
  std::int64_t ldc = 0;
  DeviceAddress d = 0;
  std::int64_t ldd = 0;
  cudaDataType_t out_type = CUDA_R_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  DeviceAddress bias = 0;
};

bool DenseMatmul::covers(const OperatorSpec& spec) {
  const Epilogue& epilogue = spec.epilogue;
  if (epilogue.bias && spec.layout == Layout::kFeatureMajor) return false;
  if (epilogue.activation == Activation::kNone) return !(epilogue.beta && epilogue.residual);
  return epilogue.activation == Activation::kRelu && !epilogue.beta && !epilogue.residual;
}

Result<std::unique_ptr<DenseMatmul>> DenseMatmul::create(const std::shared_ptr<const CudaContext>& context,
                                                         const OperatorSpec& spec) {
  SPARSMITH_ASSIGN_OR_RETURN(const CublasLt* library, cublas_lt());
  const CudaContext::Scope scope(*context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  std::unique_ptr<DenseMatmul> matmul(new DenseMatmul(context, *library, spec));
  SPARSMITH_RETURN_IF_ERROR(CublasLt::check(library->Create(&matmul->handle_), "cublasLtCreate"));
  return matmul;
}

DenseMatmul::~DenseMatmul() {
  if (handle_ == nullptr) return;
  const CudaContext::Scope scope(*context_);
  library_.Destroy(handle_);
}

Status DenseMatmul::enqueue(DeviceAddress weight, const LaunchBindings& bindings, CUstream stream) const {
  Product product;
  product.weight = weight;
  product.alpha = bindings.scalars.value_or("alpha", 1);
  product.c = product.d = bindings.operands.value_or("y", 0);
  product.ldc = product.ldd = bindings.variables.strides.value_or("y", 0);
  product.out_type = cuda_data_type(spec_.type);
  if (spec_.epilogue.beta) product.beta = bindings.scalars.value_or("beta", 0);
  if (spec_.epilogue.residual) {
    product.c = bindings.operands.value_or("residual", 0);
    product.ldc = bindings.variables.strides.value_or("residual", 0);
    product.beta = 1;
  }
  const bool relu = spec_.epilogue.activation == Activation::kRelu;
  if (spec_.epilogue.bias) {
    product.bias = bindings.operands.value_or("bias", 0);
    product.epilogue = relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  } else if (relu) {
    product.epilogue = CUBLASLT_EPILOGUE_RELU;
  }
  return multiply(bindings, product, stream);
}

Status DenseMatmul::enqueue_product(DeviceAddress weight, const LaunchBindings& bindings, DeviceAddress product_address,
                                    CUstream stream) const {
  Product product;
  product.weight = weight;
  product.c = product.d = product_address;
  product.ldc = product.ldd = spec_.layout == Layout::kTokenMajor ? spec_.rows : bindings.variables.n;
  return multiply(bindings, product, stream);
}

Status DenseMatmul::multiply(const LaunchBindings& bindings, const Product& product, CUstream stream) const {
  const bool token_major = spec_.layout == Layout::kTokenMajor;
  const auto m = static_cast<std::uint64_t>(spec_.rows);
  const auto k = static_cast<std::uint64_t>(spec_.cols);
  const auto n = static_cast<std::uint64_t>(bindings.variables.n);
  const cudaDataType_t type = cuda_data_type(spec_.type);

  Status status;
  const auto call = [&status](cublasStatus_t result, const char* what) {
    if (status.ok() && result != CUBLAS_STATUS_SUCCESS) status = CublasLt::check(result, what);
  };
  cublasLtMatmulDescOpaque_t operation{};
  call(library_.MatmulDescInit(&operation, sizeof(operation), CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    call(library_.MatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)), "describing a product");
  };
  const cublasOperation_t op_w = token_major == (spec_.kind == OperatorKind::kSpmm) ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(token_major ? CUBLASLT_MATMUL_DESC_TRANSA : CUBLASLT_MATMUL_DESC_TRANSB, op_w);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, product.epilogue);
  if (product.bias != 0) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);

  cublasLtMatrixLayoutOpaque_t w{};
  cublasLtMatrixLayoutOpaque_t x{};
  cublasLtMatrixLayoutOpaque_t c{};
  cublasLtMatrixLayoutOpaque_t d{};
  const auto layout = [&](cublasLtMatrixLayoutOpaque_t& of, cudaDataType_t element, std::uint64_t rows,
                          std::uint64_t cols, std::int64_t ld) {
    call(library_.MatrixLayoutInit(&of, sizeof(of), element, rows, cols, ld), "describing a matrix");
  };
  layout(w, type, static_cast<std::uint64_t>(spec_.weight_cols()), static_cast<std::uint64_t>(spec_.weight_rows()),
         spec_.weight_cols());
  layout(x, type, token_major ? k : n, token_major ? n : k, bindings.variables.strides.value_or("x", 0));
  layout(c, product.out_type, token_major ? m : n, token_major ? n : m, product.ldc);
  layout(d, product.out_type, token_major ? m : n, token_major ? n : m, product.ldd);

  const DeviceAddress a_address = token_major ? product.weight : bindings.operands.value_or("x", 0);
  const DeviceAddress b_address = token_major ? bindings.operands.value_or("x", 0) : product.weight;
  cublasLtMatmulPreferenceOpaque_t preference{};
  call(library_.MatmulPreferenceInit(&preference, sizeof(preference)), "choosing an algorithm");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    call(library_.MatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)), "choosing an algorithm");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kScratchBytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(a_address));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(b_address));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product.d));
  SPARSMITH_RETURN_IF_ERROR(status);

  cublasLtMatrixLayout_t a_layout = token_major ? &w : &x;
  cublasLtMatrixLayout_t b_layout = token_major ? &x : &w;
  cublasLtMatmulHeuristicResult_t chosen{};
  int found = 0;
  call(
      library_.MatmulAlgoGetHeuristic(handle_, &operation, a_layout, b_layout, &c, &d, &preference, 1, &chosen, &found),
      "choosing an algorithm");
  if (status.ok() && found == 0) return unsupported("cuBLASLt has no algorithm for this product");
  SPARSMITH_RETURN_IF_ERROR(status);
  return CublasLt::check(
      library_.Matmul(handle_, &operation, &product.alpha, pointer(a_address), a_layout, pointer(b_address), b_layout,
                      &product.beta, pointer(product.c), &c, const_cast<void*>(pointer(product.d)), &d, &chosen.algo,
                      const_cast<void*>(pointer(bindings.scratch)), kScratchBytes,
                      reinterpret_cast<cudaStream_t>(stream)),
      "multiplying");
}

}  // namespace sparsmith
