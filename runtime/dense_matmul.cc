#include "runtime/dense_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/cuda_data_type.h"

namespace sparsmith {
namespace {

template <class T>
const void* pointer(T address) {
  return reinterpret_cast<const void*>(address);
}

// The largest power of two, up to 256, that divides an address. The heuristics may rely on this alignment.
std::uint32_t alignment_of(DeviceAddress address) {
  return static_cast<std::uint32_t>(std::min<DeviceAddress>(address & (~address + 1), 256));
}

}  // namespace

struct DenseMatmul::Product {
  DeviceAddress weight = 0;  // sddmm has none
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
  if (!spec.multiplies_weight() || epilogue.gated) return false;
  if (epilogue.bias && spec.layout == Layout::kFeatureMajor) return false;
  if (epilogue.activation == Activation::kNone) return !(epilogue.beta && epilogue.residual);
  return epilogue.activation == Activation::kRelu && !epilogue.beta && !epilogue.residual;
}

Result<std::unique_ptr<DenseMatmul>> DenseMatmul::create(const std::shared_ptr<const CudaContext>& context,
                                                         const OperatorSpec& spec, bool exact) {
  SPARSMITH_ASSIGN_OR_RETURN(const CublasLt* library, cublas_lt());
  const CudaContext::Scope scope(*context);
  SPARSMITH_RETURN_IF_ERROR(scope.status());
  std::unique_ptr<DenseMatmul> matmul(new DenseMatmul(context, *library, spec, exact));
  SPARSMITH_RETURN_IF_ERROR(CublasLt::check(library->Create(&matmul->handle_), "cublasLtCreate"));
  return matmul;
}

DenseMatmul::~DenseMatmul() {
  if (handle_ == nullptr) return;
  const CudaContext::Scope scope(*context_);
  library_.Destroy(handle_);
}

DenseMatmul::Product DenseMatmul::whole_operator(const LaunchBindings& bindings) const {
  Product product;
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
  return product;
}

DenseMatmul::Product DenseMatmul::product_alone(const LaunchBindings& bindings, DeviceAddress address) const {
  Product product;
  product.c = product.d = address;
  product.ldc = product.ldd = spec_.layout == Layout::kTokenMajor ? spec_.rows : bindings.variables.n;
  return product;
}

DenseMatmul::Product DenseMatmul::gradient(const LaunchBindings& bindings, DeviceAddress address) const {
  Product product;
  product.alpha = bindings.scalars.value_or("alpha", 1);
  product.c = product.d = address;
  product.ldc = product.ldd = spec_.cols;
  product.out_type = cuda_data_type(spec_.gradient_type());
  return product;
}

struct DenseMatmul::Factor {
  DeviceAddress address = 0;
  std::int64_t rows = 0;  // in memory
  std::int64_t cols = 0;
  std::int64_t ld = 0;
  bool transposed = false;  // whether the product takes its transpose
};

// cuBLASLt's matrices are column-major. Y[N][M] row-major is D, M x N; so token_major is D = W^T' X with W[M][K]
// row-major seen as K x M and transposed; feature_major is Y[M][N] seen as N x M: D = X W with X as N x K, W as K x M.
// What multiplies the transposed weight, whose array is seen as M x K, transposes it where the other does not. The
// gradient [M][K] is D, K x M: X as K x N or, feature_major, N x K transposed, times dY as M x N transposed, or N x M.
std::array<DenseMatmul::Factor, 2> DenseMatmul::factors(const LaunchBindings& bindings, const Product& product,
                                                        std::int64_t tokens) const {
  const bool token_major = spec_.layout == Layout::kTokenMajor;
  // A stride of feature_major is at least the tokens, which may be more than at hand; so are those of the outputs.
  const bool more = tokens > bindings.variables.n;
  const auto activations = [&](const char* name, std::int64_t features, bool transposed) {
    const std::int64_t ld = bindings.variables.strides.value_or(name, 0);
    return Factor{bindings.operands.value_or(name, 0), token_major ? features : tokens, token_major ? tokens : features,
                  more && !token_major ? std::max(ld, tokens) : ld, transposed};
  };
  if (!spec_.multiplies_weight())
    return {activations("x", spec_.cols, !token_major), activations("dy", spec_.rows, token_major)};
  const Factor x = activations("x", spec_.cols, false);
  const Factor weight = {product.weight, spec_.weight_cols(), spec_.weight_rows(), spec_.weight_cols(),
                         token_major == (spec_.kind == OperatorKind::kSpmm)};
  return token_major ? std::array{weight, x} : std::array{x, weight};
}

struct DenseMatmul::Described {
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t a{};
  cublasLtMatrixLayoutOpaque_t b{};
  cublasLtMatrixLayoutOpaque_t c{};
  cublasLtMatrixLayoutOpaque_t d{};
  cublasLtMatmulPreferenceOpaque_t preference{};
  DeviceAddress a_address = 0;
  DeviceAddress b_address = 0;
};

Result<DenseMatmul::Described> DenseMatmul::described(const LaunchBindings& bindings, const Product& product,
                                                      std::int64_t tokens) const {
  const auto [a, b] = factors(bindings, product, tokens);
  Described made;
  Status status;
  const auto call = [&status](cublasStatus_t result, const char* what) {
    if (status.ok() && result != CUBLAS_STATUS_SUCCESS) status = CublasLt::check(result, what);
  };
  // CUBLAS_COMPUTE_32F: fp32 accumulation, and no TF32 for fp32.
  call(library_.MatmulDescInit(&made.operation, sizeof(made.operation), CUBLAS_COMPUTE_32F, CUDA_R_32F),
       "describing a product");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    call(library_.MatmulDescSetAttribute(&made.operation, attribute, &value, sizeof(value)), "describing a product");
  };
  const auto operation = [](const Factor& of) { return of.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(CUBLASLT_MATMUL_DESC_TRANSA, operation(a));
  set(CUBLASLT_MATMUL_DESC_TRANSB, operation(b));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, product.epilogue);
  if (product.bias != 0) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);

  const auto layout = [&](cublasLtMatrixLayoutOpaque_t& of, cudaDataType_t element, std::int64_t rows,
                          std::int64_t cols, std::int64_t ld) {
    call(library_.MatrixLayoutInit(&of, sizeof(of), element, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(cols), ld),
         "describing a matrix");
  };
  const cudaDataType_t type = cuda_data_type(spec_.type);
  layout(made.a, type, a.rows, a.cols, a.ld);
  layout(made.b, type, b.rows, b.cols, b.ld);
  const std::int64_t rows = a.transposed ? a.cols : a.rows;
  const std::int64_t cols = b.transposed ? b.rows : b.cols;
  const bool more = tokens > bindings.variables.n;
  layout(made.c, product.out_type, rows, cols, more ? std::max(product.ldc, rows) : product.ldc);
  layout(made.d, product.out_type, rows, cols, more ? std::max(product.ldd, rows) : product.ldd);

  made.a_address = a.address;
  made.b_address = b.address;
  call(library_.MatmulPreferenceInit(&made.preference, sizeof(made.preference)), "choosing an algorithm");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    call(library_.MatmulPreferenceSetAttribute(&made.preference, attribute, &value, sizeof(value)),
         "choosing an algorithm");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kScratchBytes);
  // Partial sums stay in fp32: not in a 16-bit output.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(made.a_address));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(made.b_address));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product.d));
  SPARSMITH_RETURN_IF_ERROR(status);
  return made;
}

Result<cublasLtMatmulAlgo_t> DenseMatmul::proposed(Described& made, int proposal, bool exact) const {
  std::array<cublasLtMatmulHeuristicResult_t, kMostProposals> all{};
  int found = 0;
  SPARSMITH_RETURN_IF_ERROR(
      CublasLt::check(library_.MatmulAlgoGetHeuristic(handle_, &made.operation, &made.a, &made.b, &made.c, &made.d,
                                                      &made.preference, proposal + 1, all.data(), &found),
                      "choosing an algorithm"));
  if (found == 0) return unsupported("cuBLASLt has no algorithm for this product");
  if (exact && found <= proposal)
    return unsupported(fmt::format("cuBLASLt proposes {} algorithms for this product", found));
  return all[found > proposal ? proposal : 0].algo;
}

Result<cublasLtMatmulAlgo_t> DenseMatmul::algorithm_of(const PlanStep& step, const LaunchBindings& bindings,
                                                       const Product& product, Described& made) const {
  const std::int64_t tokens = bindings.variables.n;
  if (step.proposed_for == 0 || step.proposed_for == tokens) return proposed(made, step.proposal, exact_);
  SPARSMITH_ASSIGN_OR_RETURN(Described other, described(bindings, product, step.proposed_for));
  const auto algorithm = proposed(other, step.proposal, exact_);
  cublasLtMatmulHeuristicResult_t checked{};
  const bool serves = algorithm.ok() &&
                      library_.MatmulAlgoCheck(handle_, &made.operation, &made.a, &made.b, &made.c, &made.d,
                                               &*algorithm, &checked) == CUBLAS_STATUS_SUCCESS &&
                      checked.workspaceSize <= kScratchBytes;
  return serves ? algorithm : proposed(made, 0, exact_);
}

Result<cublasLtMatmulAlgo_t> DenseMatmul::known_algorithm(const PlanStep& step, const LaunchBindings& bindings,
                                                          const Product& product, Described& made) const {
  const Question question = {bindings.variables.n,
                             bindings.variables.strides.value_or("x", 0),
                             bindings.variables.strides.value_or("dy", 0),
                             product.ldc,
                             product.ldd,
                             alignment_of(made.a_address),
                             alignment_of(made.b_address),
                             alignment_of(product.c),
                             alignment_of(product.d),
                             step.proposal,
                             step.proposed_for,
                             step.product ? 1 : 0};
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(answers_, question, &Answer::question);
  if (known != answers_.end()) return known->algorithm;
  SPARSMITH_ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t algorithm, algorithm_of(step, bindings, product, made));
  answers_[oldest_] = {question, algorithm};
  oldest_ = (oldest_ + 1) % answers_.size();
  return algorithm;
}

Status DenseMatmul::enqueue(const PlanStep& step, DeviceAddress weight, const LaunchBindings& bindings,
                            DeviceAddress product_address, CUstream stream) const {
  Product product = !step.product               ? whole_operator(bindings)
                    : spec_.multiplies_weight() ? product_alone(bindings, product_address)
                                                : gradient(bindings, product_address);
  product.weight = weight;
  SPARSMITH_ASSIGN_OR_RETURN(Described made, described(bindings, product, bindings.variables.n));
  SPARSMITH_ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t algorithm, known_algorithm(step, bindings, product, made));
  return CublasLt::check(library_.Matmul(handle_, &made.operation, &product.alpha, pointer(made.a_address), &made.a,
                                         pointer(made.b_address), &made.b, &product.beta, pointer(product.c), &made.c,
                                         const_cast<void*>(pointer(product.d)), &made.d, &algorithm,
                                         const_cast<void*>(pointer(bindings.scratch)), kScratchBytes,
                                         reinterpret_cast<cudaStream_t>(stream)),
                         "multiplying");
}

}  // namespace sparsmith
