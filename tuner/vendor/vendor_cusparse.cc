// cuSPARSE: its CSR algorithms, with X and Y row-major and column-major, preprocessed; also SpMV for N = 1.
//
// 32-bit indices; 16-bit types with fp32 accumulation. token_major X[N][K] is a column-major K x N matrix,
// feature_major a row-major one.
#include <cusparse.h>
#include <fmt/format.h>

#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/cuda_data_type.h"
#include "runtime/cuda_library.h"
#include "tuner/time/device_copies.h"
#include "tuner/vendor/vendor.h"

namespace sparsmith {
namespace {

#define SPARSMITH_CUSPARSE_FUNCTIONS(X) \
  X(Create)                             \
  X(Destroy)                            \
  X(SetStream)                          \
  X(GetErrorString)                     \
  X(CreateCsr)                          \
  X(DestroySpMat)                       \
  X(CreateDnMat)                        \
  X(DestroyDnMat)                       \
  X(CreateDnVec)                        \
  X(DestroyDnVec)                       \
  X(SpMV)                               \
  X(SpMV_bufferSize)                    \
  X(SpMM)                               \
  X(SpMM_bufferSize)                    \
  X(SpMM_preprocess)

struct Cusparse {
#define SPARSMITH_CUSPARSE_MEMBER(name) decltype(cusparse##name)* name = nullptr;
  SPARSMITH_CUSPARSE_FUNCTIONS(SPARSMITH_CUSPARSE_MEMBER)
#undef SPARSMITH_CUSPARSE_MEMBER
  decltype(cusparseSpMV_preprocess)* SpMV_preprocess = nullptr;  // since 12.4; null before

  Status bind(const CudaLibrary& library) {
#define SPARSMITH_CUSPARSE_LOAD(name) SPARSMITH_RETURN_IF_ERROR(library.bind("cusparse" #name, name));
    SPARSMITH_CUSPARSE_FUNCTIONS(SPARSMITH_CUSPARSE_LOAD)
#undef SPARSMITH_CUSPARSE_LOAD
    (void)library.bind("cusparseSpMV_preprocess", SpMV_preprocess);
    return {};
  }

  Status check(cusparseStatus_t status, const char* what) const {
    if (status == CUSPARSE_STATUS_SUCCESS) return {};
    const std::string message = fmt::format("cuSPARSE: {}: {}", what, GetErrorString(status));
    return status == CUSPARSE_STATUS_NOT_SUPPORTED ? unsupported(message) : device_error(message);
  }
};

void* pointer(DeviceAddress address) { return reinterpret_cast<void*>(address); }

// A CSR weight on the GPU and its copies. All algorithms and problems with this weight share them.
struct CsrOnDevice {
  std::vector<DeviceAllocation> arrays;  // row offsets, columns, values
  DeviceCopies copies;
  std::size_t bytes = 0;
};

// SpMV or SpMM with one algorithm, by these functions. Each copy of the weight has its own descriptor and its own
// buffer, which preprocessing fills.
template <class Algorithm, class Operand, auto kRun, auto kBufferSize, auto kPreprocess, auto kDestroy>
class CusparseWork : public VendorWork {
 public:
  CusparseWork(const Cusparse& api, cusparseHandle_t handle, VendorProblem& problem,
               std::shared_ptr<CsrOnDevice> weight, std::string algorithm_name, Algorithm algorithm, Layout layout)
      : api_(api),
        handle_(handle),
        problem_(problem),
        alpha_(problem.plain().alpha()),
        weight_(std::move(weight)),
        algorithm_name_(std::move(algorithm_name)),
        algorithm_(algorithm),
        layout_(layout) {}
  ~CusparseWork() override {
    for (const Prepared& prepared : prepared_) api_.DestroySpMat(prepared.matrix);
    for (const auto operand : {x_, y_})
      if (operand != nullptr) (api_.*kDestroy)(operand);
  }

  std::int64_t weight_bytes() const override { return static_cast<std::int64_t>(weight_->bytes); }
  std::int64_t bytes_on_gpu() const override { return weight_bytes() + static_cast<std::int64_t>(buffer_bytes_); }
  Layout layout() const override { return layout_; }
  std::string detail() const override {
    if (kIsVector) return "cuSPARSE SpMV " + algorithm_name_;
    return fmt::format("cuSPARSE SpMM {}, X {}", algorithm_name_,
                       layout_ == Layout::kTokenMajor ? "column-major" : "row-major");
  }

  Status make_copies(int count) override {
    SPARSMITH_RETURN_IF_ERROR(describe_operands());
    const int missing = count - static_cast<int>(prepared_.size());
    if (missing <= 0) return {};
    SPARSMITH_RETURN_IF_ERROR(weight_->copies.make(count));
    const bool is_first = prepared_.empty();
    while (static_cast<int>(prepared_.size()) < count)
      SPARSMITH_RETURN_IF_ERROR(describe_weight(static_cast<int>(prepared_.size())));
    if (is_first)
      SPARSMITH_RETURN_IF_ERROR(call(api_.*kBufferSize, prepared_[0].matrix, &buffer_bytes_, "asking for a buffer"));

    const GpuExecutor& executor = problem_.executor();
    const std::size_t stride = DeviceCopies::aligned(buffer_bytes_);
    SPARSMITH_ASSIGN_OR_RETURN(DeviceAllocation buffers,
                               DeviceAllocation::make(problem_.executor(), static_cast<std::size_t>(missing) * stride));
    SPARSMITH_RETURN_IF_ERROR(api_.check(api_.SetStream(handle_, executor.stream()), "setting the stream"));
    for (int i = 0; i < missing; ++i) {
      Prepared& prepared = prepared_[count - missing + i];
      prepared.buffer = buffers.address() + i * stride;
      if (api_.*kPreprocess == nullptr) continue;
      SPARSMITH_RETURN_IF_ERROR(call(api_.*kPreprocess, prepared.matrix, pointer(prepared.buffer), "preprocessing"));
    }
    buffers_.push_back(std::move(buffers));
    const CudaDriver& driver = executor.driver();
    return driver.check(driver.StreamSynchronize(executor.stream()), "preprocessing of cuSPARSE");
  }

  Status enqueue(CUstream stream, int copy) override {
    SPARSMITH_RETURN_IF_ERROR(api_.check(api_.SetStream(handle_, stream), "setting the stream"));
    return call(api_.*kRun, prepared_[copy].matrix, pointer(prepared_[copy].buffer), "running");
  }

 private:
  static constexpr bool kIsVector = std::is_same_v<Operand, cusparseDnVecDescr_t>;
  struct Prepared {
    cusparseSpMatDescr_t matrix = nullptr;
    DeviceAddress buffer = 0;
  };

  // Calls a function of the product; `buffer`: the buffer, or where its size goes.
  template <class Function, class Buffer>
  Status call(Function* function, cusparseSpMatDescr_t matrix, Buffer buffer, const char* what) {
    constexpr cusparseOperation_t kPlain = CUSPARSE_OPERATION_NON_TRANSPOSE;
    const float beta = 0;
    if constexpr (kIsVector) {
      return api_.check(function(handle_, kPlain, &alpha_, matrix, x_, &beta, y_, CUDA_R_32F, algorithm_, buffer),
                        what);
    } else {
      return api_.check(
          function(handle_, kPlain, kPlain, &alpha_, matrix, x_, &beta, y_, CUDA_R_32F, algorithm_, buffer), what);
    }
  }

  Status describe_operands() {
    if (y_ != nullptr) return {};
    const OperatorSpec& spec = problem_.plain().spec();
    SPARSMITH_ASSIGN_OR_RETURN(const VendorProblem::Activations* const operands, problem_.activations(layout_));
    SPARSMITH_RETURN_IF_ERROR(describe(x_, spec.cols, operands->x, "describing X"));
    return describe(y_, spec.rows, operands->y, "describing Y");
  }
  Status describe(Operand& operand, std::int64_t features, const DeviceAllocation& array, const char* what) {
    const cudaDataType_t type = cuda_data_type(problem_.plain().spec().type);
    if constexpr (kIsVector) {
      return api_.check(api_.CreateDnVec(&operand, features, pointer(array.address()), type), what);
    } else {
      const bool token_major = layout_ == Layout::kTokenMajor;
      const std::int64_t tokens = problem_.plain().tokens();
      return api_.check(
          api_.CreateDnMat(&operand, features, tokens, token_major ? features : tokens, pointer(array.address()), type,
                           token_major ? CUSPARSE_ORDER_COL : CUSPARSE_ORDER_ROW),
          what);
    }
  }

  // Adds the descriptor of copy `copy`.
  Status describe_weight(int copy) {
    const CsrMatrix& matrix = problem_.plain().matrix();
    const auto array = [&](std::size_t index) { return pointer(weight_->copies.address(copy, index)); };
    Prepared prepared;
    SPARSMITH_RETURN_IF_ERROR(
        api_.check(api_.CreateCsr(&prepared.matrix, matrix.rows, matrix.cols, matrix.nnz(), array(0), array(1),
                                  array(2), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                                  cuda_data_type(problem_.plain().spec().type)),
                   "describing the weight"));
    prepared_.push_back(prepared);
    return {};
  }

  const Cusparse& api_;
  cusparseHandle_t handle_;
  VendorProblem& problem_;
  const float alpha_;
  std::shared_ptr<CsrOnDevice> weight_;
  std::string algorithm_name_;
  Algorithm algorithm_;
  Layout layout_;
  Operand x_ = nullptr;
  Operand y_ = nullptr;
  std::size_t buffer_bytes_ = 0;           // of one copy
  std::vector<DeviceAllocation> buffers_;  // each holds those of the copies that one call made
  std::vector<Prepared> prepared_;
};

using SpmvWork = CusparseWork<cusparseSpMVAlg_t, cusparseDnVecDescr_t, &Cusparse::SpMV, &Cusparse::SpMV_bufferSize,
                              &Cusparse::SpMV_preprocess, &Cusparse::DestroyDnVec>;
using SpmmWork = CusparseWork<cusparseSpMMAlg_t, cusparseDnMatDescr_t, &Cusparse::SpMM, &Cusparse::SpMM_bufferSize,
                              &Cusparse::SpMM_preprocess, &Cusparse::DestroyDnMat>;

class CusparseVendor : public Vendor {
 public:
  explicit CusparseVendor(GpuExecutor& executor) : executor_(executor) {}
  ~CusparseVendor() override {
    if (handle_ != nullptr) api_.Destroy(handle_);
  }

  Status open() {
    // cuSPARSE needs it; from a folder of wheels the loader does not find it by itself.
    (void)CudaLibrary::open({"libnvJitLink.so.13", "libnvJitLink.so.12"});
    SPARSMITH_ASSIGN_OR_RETURN(const CudaLibrary library,
                               CudaLibrary::open({"libcusparse.so.12", "libcusparse.so.13"}));
    SPARSMITH_RETURN_IF_ERROR(api_.bind(library));
    return api_.check(api_.Create(&handle_), "starting");
  }

  void forget_weight() override { weight_.reset(); }

  Result<std::vector<std::unique_ptr<VendorWork>>> works(VendorProblem& problem) override {
    std::vector<std::unique_ptr<VendorWork>> works;
    const CsrMatrix& matrix = problem.plain().matrix();
    if (matrix.nnz() == 0 || problem.plain().tokens() == 0) return unsupported("nothing to multiply");
    if (matrix.nnz() > std::numeric_limits<std::int32_t>::max())
      return unsupported("more nonzeros than 32-bit offsets can count");
    if (weight_ == nullptr) SPARSMITH_RETURN_IF_ERROR(upload(problem.plain()));

    if (problem.plain().tokens() == 1) {
      const std::pair<const char*, cusparseSpMVAlg_t> algorithms[] = {{"ALG_DEFAULT", CUSPARSE_SPMV_ALG_DEFAULT},
                                                                      {"CSR_ALG1", CUSPARSE_SPMV_CSR_ALG1},
                                                                      {"CSR_ALG2", CUSPARSE_SPMV_CSR_ALG2}};
      for (const auto& [name, algorithm] : algorithms)
        works.push_back(std::make_unique<SpmvWork>(api_, handle_, problem, weight_, name, algorithm,
                                                   problem.plain().spec().layout));
      return works;
    }
    // The usual winner first, so that others need not be timed for long.
    const std::pair<const char*, cusparseSpMMAlg_t> algorithms[] = {{"CSR_ALG3", CUSPARSE_SPMM_CSR_ALG3},
                                                                    {"CSR_ALG2", CUSPARSE_SPMM_CSR_ALG2},
                                                                    {"CSR_ALG1", CUSPARSE_SPMM_CSR_ALG1}};
    for (const auto& [name, algorithm] : algorithms)
      for (const Layout layout : {Layout::kFeatureMajor, Layout::kTokenMajor})
        works.push_back(std::make_unique<SpmmWork>(api_, handle_, problem, weight_, name, algorithm, layout));
    return works;
  }

 private:
  Status upload(const ReferenceProblem& problem) {
    const CsrMatrix& matrix = problem.matrix();
    const std::vector<std::int32_t> offsets(matrix.row_offsets.begin(), matrix.row_offsets.end());
    ElementBuffer values(problem.spec().type, matrix.nnz());
    for (std::int64_t i = 0; i < matrix.nnz(); ++i) values.set(i, problem.values()[i]);
    auto csr = std::make_shared<CsrOnDevice>();
    std::vector<DeviceCopies::Array> originals;
    for (const auto contents : {std::as_bytes(std::span(offsets)), std::as_bytes(std::span(matrix.column_indices)),
                                std::as_bytes(values.bytes())}) {
      SPARSMITH_ASSIGN_OR_RETURN(csr->arrays.emplace_back(), DeviceAllocation::holding(executor_, contents));
      originals.push_back({csr->arrays.back().address(), contents.size()});
      csr->bytes += contents.size();
    }
    csr->copies = DeviceCopies(executor_, std::move(originals));
    weight_ = std::move(csr);
    return {};
  }

  GpuExecutor& executor_;
  Cusparse api_;
  cusparseHandle_t handle_ = nullptr;
  std::shared_ptr<CsrOnDevice> weight_;
};

}  // namespace

Result<std::unique_ptr<Vendor>> open_cusparse(GpuExecutor& executor) {
  auto vendor = std::make_unique<CusparseVendor>(executor);
  SPARSMITH_RETURN_IF_ERROR(vendor->open());
  return std::unique_ptr<Vendor>(std::move(vendor));
}

}  // namespace sparsmith
