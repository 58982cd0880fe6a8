// Dense, by cuBLASLt: the best of its heuristics, fp32 as strict fp32, 16-bit types with fp32 accumulation.
//
// cuBLASLt is column-major. W[M][K] row-major is W' = K x M there. token_major: Y' (M x N) = op(W') X' with
// X[N][K] as X' = K x N. feature_major: Y' (N x M) = X' W' with X[K][N] as X' = N x K.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/parallel_for.h"
#include "runtime/cublas_lt.h"
#include "runtime/cuda_data_type.h"
#include "tuner/vendor.h"

namespace sparsmith {
namespace {

constexpr int kHeuristics = 24;
constexpr std::size_t kWorkspaceBytes = 32 << 20;
constexpr std::size_t kUploadBytes = 64 << 20;  // of the dense weight at a time

// Descriptions of one product.
class Product {
 public:
  explicit Product(const CublasLt& library) : library_(library) {}

  Status describe(const OperatorSpec& spec, std::int64_t tokens, std::int64_t ldx, std::int64_t ldy) {
    token_major_ = spec.layout == Layout::kTokenMajor;
    const bool straight = spec.kind == OperatorKind::kSpmm;
    const cudaDataType_t type = cuda_data_type(spec.type);
    // CUBLAS_COMPUTE_32F: fp32 accumulation, and no TF32 for fp32.
    SPARSMITH_RETURN_IF_ERROR(
        CublasLt::check(library_.MatmulDescInit(&operation_, sizeof(operation_), CUBLAS_COMPUTE_32F, CUDA_R_32F),
                        "describing a product"));
    // As DenseMatmul has them: the weight's own rows lie one behind the other, whichever the operator's kind.
    const cublasOperation_t op_w = token_major_ == straight ? CUBLAS_OP_T : CUBLAS_OP_N;
    SPARSMITH_RETURN_IF_ERROR(CublasLt::check(
        library_.MatmulDescSetAttribute(
            &operation_, token_major_ ? CUBLASLT_MATMUL_DESC_TRANSA : CUBLASLT_MATMUL_DESC_TRANSB, &op_w, sizeof(op_w)),
        "transposing"));
    SPARSMITH_RETURN_IF_ERROR(
        layout(token_major_ ? a_ : b_, type, spec.weight_cols(), spec.weight_rows(), spec.weight_cols()));
    if (token_major_) {
      SPARSMITH_RETURN_IF_ERROR(layout(b_, type, spec.cols, tokens, ldx));
      return layout(c_, type, spec.rows, tokens, ldy);
    }
    SPARSMITH_RETURN_IF_ERROR(layout(a_, type, tokens, spec.cols, ldx));
    return layout(c_, type, tokens, spec.rows, ldy);
  }

  Result<std::vector<cublasLtMatmulHeuristicResult_t>> heuristics(cublasLtHandle_t handle) {
    cublasLtMatmulPreferenceOpaque_t preference{};
    SPARSMITH_RETURN_IF_ERROR(
        CublasLt::check(library_.MatmulPreferenceInit(&preference, sizeof(preference)), "making a preference"));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value, const char* what) {
      return CublasLt::check(library_.MatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
                             what);
    };
    SPARSMITH_RETURN_IF_ERROR(
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes, "setting the workspace"));
    // Partial sums stay in fp32: not in a 16-bit output.
    const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    SPARSMITH_RETURN_IF_ERROR(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions, "setting the reductions"));
    std::vector<cublasLtMatmulHeuristicResult_t> found(kHeuristics);
    int count = 0;
    SPARSMITH_RETURN_IF_ERROR(
        CublasLt::check(library_.MatmulAlgoGetHeuristic(handle, &operation_, &a_, &b_, &c_, &c_, &preference,
                                                        kHeuristics, found.data(), &count),
                        "asking for heuristics"));
    found.resize(count);
    return found;
  }

  // `w` and `x` in the order in which the layout has them as A and B.
  Status run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, float alpha, DeviceAddress w,
             DeviceAddress x, DeviceAddress y, DeviceAddress workspace, CUstream stream) {
    const float beta = 0;
    const auto pointer = [](DeviceAddress address) { return reinterpret_cast<void*>(address); };
    return CublasLt::check(library_.Matmul(handle, &operation_, &alpha, pointer(token_major_ ? w : x), &a_,
                                           pointer(token_major_ ? x : w), &b_, &beta, pointer(y), &c_, pointer(y), &c_,
                                           &algorithm, pointer(workspace), kWorkspaceBytes, stream),
                           "a product");
  }

 private:
  Status layout(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, std::int64_t rows, std::int64_t cols,
                std::int64_t leading) {
    return CublasLt::check(library_.MatrixLayoutInit(&layout, sizeof(layout), type, rows, cols, leading),
                           "describing a matrix");
  }

  const CublasLt& library_;
  bool token_major_ = true;
  cublasLtMatmulDescOpaque_t operation_{};
  cublasLtMatrixLayoutOpaque_t a_{};
  cublasLtMatrixLayoutOpaque_t b_{};
  cublasLtMatrixLayoutOpaque_t c_{};
};

// The dense weight on the GPU and its copies, and a workspace: shared by all algorithms.
struct DenseWeight {
  std::vector<DeviceAllocation> copies;
  DeviceAllocation workspace;
};

class CublasWork : public VendorWork {
 public:
  CublasWork(cublasLtHandle_t handle, VendorProblem& problem, std::shared_ptr<Product> product,
             std::shared_ptr<DenseWeight> weight, cublasLtMatmulAlgo_t algorithm, int rank,
             const VendorProblem::Activations& activations)
      : handle_(handle),
        problem_(problem),
        product_(std::move(product)),
        weight_(std::move(weight)),
        algorithm_(algorithm),
        rank_(rank),
        activations_(activations) {}

  std::int64_t weight_bytes() const override { return static_cast<std::int64_t>(weight_->copies.front().bytes()); }
  std::int64_t bytes_on_gpu() const override { return weight_bytes(); }
  Layout layout() const override { return problem_.spec().layout; }
  std::string detail() const override { return fmt::format("cuBLASLt heuristic {}", rank_); }
  Status make_copies(int count) override {
    while (static_cast<int>(weight_->copies.size()) < count) {
      SPARSMITH_ASSIGN_OR_RETURN(DeviceAllocation copy, device_copy(problem_.executor(), weight_->copies.front()));
      weight_->copies.push_back(std::move(copy));
    }
    return {};
  }
  Status enqueue(CUstream stream, int copy) override {
    return product_->run(handle_, algorithm_, problem_.alpha(), weight_->copies[copy].address(),
                         activations_.x.address(), activations_.y.address(), weight_->workspace.address(), stream);
  }

 private:
  cublasLtHandle_t handle_;
  VendorProblem& problem_;
  std::shared_ptr<Product> product_;
  std::shared_ptr<DenseWeight> weight_;
  cublasLtMatmulAlgo_t algorithm_;
  int rank_;
  const VendorProblem::Activations& activations_;
};

class CublasVendor : public Vendor {
 public:
  explicit CublasVendor(GpuExecutor& executor) : executor_(executor) {}
  ~CublasVendor() override {
    if (handle_ != nullptr) library_->Destroy(handle_);
  }

  Status open() {
    SPARSMITH_ASSIGN_OR_RETURN(library_, cublas_lt());
    return CublasLt::check(library_->Create(&handle_), "starting");
  }

  void forget_weight() override { weight_.reset(); }

  Result<std::vector<std::unique_ptr<VendorWork>>> works(VendorProblem& problem) override {
    std::vector<std::unique_ptr<VendorWork>> works;
    const OperatorSpec& spec = problem.spec();
    if (spec.rows == 0 || spec.cols == 0 || problem.tokens() == 0) return unsupported("nothing to multiply");
    if (weight_ == nullptr) SPARSMITH_RETURN_IF_ERROR(upload(problem));
    SPARSMITH_ASSIGN_OR_RETURN(const VendorProblem::Activations* const activations, problem.activations(spec.layout));
    auto product = std::make_shared<Product>(*library_);
    SPARSMITH_RETURN_IF_ERROR(product->describe(spec, problem.tokens(), activations->ldx, activations->ldy));
    SPARSMITH_ASSIGN_OR_RETURN(const auto heuristics, product->heuristics(handle_));
    int rank = 0;
    for (const cublasLtMatmulHeuristicResult_t& found : heuristics) {
      if (found.state == CUBLAS_STATUS_SUCCESS)
        works.push_back(
            std::make_unique<CublasWork>(handle_, problem, product, weight_, found.algo, rank, *activations));
      ++rank;
    }
    if (works.empty()) return unsupported("cuBLASLt has no algorithm for this problem");
    return works;
  }

 private:
  Status upload(const VendorProblem& problem) {
    const OperatorSpec& spec = problem.spec();
    std::optional<CsrMatrix> turned;
    if (spec.kind == OperatorKind::kSpmmTransposed) turned = transposed(problem.matrix());
    const CsrMatrix& matrix = turned ? *turned : problem.matrix();  // the weight
    const std::size_t row_bytes = matrix.cols * size_of(spec.type);
    auto weight = std::make_shared<DenseWeight>();
    SPARSMITH_ASSIGN_OR_RETURN(DeviceAllocation dense, DeviceAllocation::make(executor_, matrix.rows * row_bytes));
    SPARSMITH_ASSIGN_OR_RETURN(weight->workspace, DeviceAllocation::make(executor_, kWorkspaceBytes));
    const std::int64_t step = std::max<std::int64_t>(1, kUploadBytes / row_bytes);
    for (std::int64_t first = 0; first < matrix.rows; first += step) {
      const std::int64_t end = std::min(matrix.rows, first + step);
      ElementBuffer part(spec.type, (end - first) * matrix.cols);
      parallel_for(end - first, 64, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t row = first + from; row < first + to; ++row)
          for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i)
            part.set((row - first) * matrix.cols + matrix.column_indices[i], matrix.values[i]);
      });
      SPARSMITH_RETURN_IF_ERROR(executor_.write(dense.address() + first * row_bytes, part.bytes()));
    }
    weight->copies.push_back(std::move(dense));
    weight_ = std::move(weight);
    return {};
  }

  GpuExecutor& executor_;
  const CublasLt* library_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  std::shared_ptr<DenseWeight> weight_;
};

}  // namespace

Result<std::unique_ptr<Vendor>> open_cublas(GpuExecutor& executor) {
  auto vendor = std::make_unique<CublasVendor>(executor);
  SPARSMITH_RETURN_IF_ERROR(vendor->open());
  return std::unique_ptr<Vendor>(std::move(vendor));
}

}  // namespace sparsmith
