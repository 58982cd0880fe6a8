// cuSPARSE: the best over its CSR algorithms, with X and Y row-major and column-major, preprocessed; SpMV where N = 1.
//
// 32-bit indices; 16-bit types with fp32 accumulation. token_major X[N][K] is a column-major K x N matrix,
// feature_major a row-major one.
#include <cusparse.h>
#include <fmt/format.h>

#include <limits>
#include <utility>

#include "runtime/cuda_data_type.h"
#include "runtime/cuda_library.h"
#include "tuner/device_copies.h"
#include "tuner/vendor.h"

namespace sparsmith {
namespace {

struct Cusparse {
  decltype(cusparseCreate)* create = nullptr;
  decltype(cusparseDestroy)* destroy = nullptr;
  decltype(cusparseSetStream)* set_stream = nullptr;
  decltype(cusparseGetErrorString)* error_string = nullptr;
  decltype(cusparseCreateCsr)* create_csr = nullptr;
  decltype(cusparseDestroySpMat)* destroy_matrix = nullptr;
  decltype(cusparseCreateDnMat)* create_dense = nullptr;
  decltype(cusparseDestroyDnMat)* destroy_dense = nullptr;
  decltype(cusparseCreateDnVec)* create_vector = nullptr;
  decltype(cusparseDestroyDnVec)* destroy_vector = nullptr;
  decltype(cusparseSpMV)* spmv = nullptr;
  decltype(cusparseSpMV_bufferSize)* spmv_buffer_size = nullptr;
  decltype(cusparseSpMV_preprocess)* spmv_preprocess = nullptr;  // since 12.4; null before
  decltype(cusparseSpMM)* spmm = nullptr;
  decltype(cusparseSpMM_bufferSize)* spmm_buffer_size = nullptr;
  decltype(cusparseSpMM_preprocess)* spmm_preprocess = nullptr;

  Status bind(const CudaLibrary& library) {
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseCreate", create));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseDestroy", destroy));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseSetStream", set_stream));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseGetErrorString", error_string));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseCreateCsr", create_csr));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseDestroySpMat", destroy_matrix));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseCreateDnMat", create_dense));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseDestroyDnMat", destroy_dense));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseCreateDnVec", create_vector));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseDestroyDnVec", destroy_vector));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseSpMV", spmv));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseSpMV_bufferSize", spmv_buffer_size));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseSpMM", spmm));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseSpMM_bufferSize", spmm_buffer_size));
    SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseSpMM_preprocess", spmm_preprocess));
    (void)library.bind("cusparseSpMV_preprocess", spmv_preprocess);
    return {};
  }

  Status check(cusparseStatus_t status, const char* what) const {
    if (status == CUSPARSE_STATUS_SUCCESS) return {};
    const std::string message = fmt::format("cuSPARSE: {}: {}", what, error_string(status));
    return status == CUSPARSE_STATUS_NOT_SUPPORTED ? unsupported(message) : device_error(message);
  }
};

void* pointer(DeviceAddress address) { return reinterpret_cast<void*>(address); }

// A CSR weight on the GPU and copies of it, shared by all algorithms and problems on the weight.
struct CsrOnDevice {
  DeviceAllocation row_offsets;
  DeviceAllocation columns;
  DeviceAllocation values;
  DeviceCopies copies;

  std::int64_t bytes() const {
    return static_cast<std::int64_t>(row_offsets.bytes() + columns.bytes() + values.bytes());
  }
};

// What is common to SpMV and SpMM: per copy of the weight a descriptor, and a buffer that preprocessing fills and
// that belongs to that descriptor.
class CusparseWork : public VendorWork {
 public:
  CusparseWork(const Cusparse& api, cusparseHandle_t handle, VendorProblem& problem,
               std::shared_ptr<CsrOnDevice> weight, std::string algorithm_name, Layout layout)
      : api_(api),
        handle_(handle),
        problem_(problem),
        alpha_(problem.alpha()),
        weight_(std::move(weight)),
        algorithm_name_(std::move(algorithm_name)),
        layout_(layout) {}
  ~CusparseWork() override {
    for (const Prepared& prepared : prepared_) api_.destroy_matrix(prepared.matrix);
  }

  std::int64_t weight_bytes() const override { return weight_->bytes(); }
  std::int64_t bytes_on_gpu() const override { return weight_bytes() + static_cast<std::int64_t>(buffer_bytes_); }
  Layout layout() const override { return layout_; }

  Status make_copies(int count) override {
    SPARSMITH_RETURN_IF_ERROR(describe_operands());
    const int missing = count - static_cast<int>(prepared_.size());
    if (missing <= 0) return {};
    SPARSMITH_RETURN_IF_ERROR(weight_->copies.make(count));
    if (prepared_.empty()) {
      SPARSMITH_RETURN_IF_ERROR(describe_weight(0));
      SPARSMITH_RETURN_IF_ERROR(api_.check(buffer_size(prepared_[0].matrix, &buffer_bytes_), "asking for a buffer"));
    }
    while (static_cast<int>(prepared_.size()) < count)
      SPARSMITH_RETURN_IF_ERROR(describe_weight(static_cast<int>(prepared_.size())));

    const std::size_t stride = DeviceCopies::aligned(buffer_bytes_);
    SPARSMITH_ASSIGN_OR_RETURN(DeviceAllocation buffers,
                               DeviceAllocation::make(problem_.executor(), static_cast<std::size_t>(missing) * stride));
    SPARSMITH_RETURN_IF_ERROR(api_.check(api_.set_stream(handle_, problem_.executor().stream()), "setting the stream"));
    for (int i = 0; i < missing; ++i) {
      Prepared& prepared = prepared_[count - missing + i];
      prepared.buffer = buffers.address() + i * stride;
      SPARSMITH_RETURN_IF_ERROR(api_.check(preprocess(prepared.matrix, pointer(prepared.buffer)), "preprocessing"));
    }
    buffers_.push_back(std::move(buffers));
    const CudaDriver& driver = problem_.driver();
    return driver.check(driver.StreamSynchronize(problem_.executor().stream()), "preprocessing of cuSPARSE");
  }

  Status enqueue(CUstream stream, int copy) override {
    SPARSMITH_RETURN_IF_ERROR(api_.check(api_.set_stream(handle_, stream), "setting the stream"));
    return api_.check(run(prepared_[copy].matrix, pointer(prepared_[copy].buffer)), "running");
  }

 protected:
  virtual Status describe_operands() = 0;
  virtual cusparseStatus_t buffer_size(cusparseSpMatDescr_t matrix, std::size_t* bytes) = 0;
  virtual cusparseStatus_t preprocess(cusparseSpMatDescr_t matrix, void* buffer) = 0;
  virtual cusparseStatus_t run(cusparseSpMatDescr_t matrix, void* buffer) = 0;

  const Cusparse& api_;
  cusparseHandle_t handle_;
  VendorProblem& problem_;
  const float alpha_;
  const float beta_ = 0;
  std::shared_ptr<CsrOnDevice> weight_;
  std::string algorithm_name_;
  Layout layout_;

 private:
  struct Prepared {
    cusparseSpMatDescr_t matrix = nullptr;
    DeviceAddress buffer = 0;
  };

  // Adds the descriptor of copy `copy`.
  Status describe_weight(int copy) {
    const CsrMatrix& matrix = problem_.matrix();
    const auto array = [&](std::size_t index) { return pointer(weight_->copies.address(copy, index)); };
    Prepared prepared;
    SPARSMITH_RETURN_IF_ERROR(
        api_.check(api_.create_csr(&prepared.matrix, matrix.rows, matrix.cols, matrix.nnz(), array(0), array(1),
                                   array(2), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                                   cuda_data_type(problem_.spec().type)),
                   "describing the weight"));
    prepared_.push_back(prepared);
    return {};
  }

  std::size_t buffer_bytes_ = 0;           // of one copy
  std::vector<DeviceAllocation> buffers_;  // each holds those of the copies that one call made
  std::vector<Prepared> prepared_;
};

class SpmvWork : public CusparseWork {
 public:
  SpmvWork(const Cusparse& api, cusparseHandle_t handle, VendorProblem& problem, std::shared_ptr<CsrOnDevice> weight,
           std::string algorithm_name, cusparseSpMVAlg_t algorithm)
      : CusparseWork(api, handle, problem, std::move(weight), std::move(algorithm_name), problem.spec().layout),
        algorithm_(algorithm) {}
  ~SpmvWork() override {
    if (x_ != nullptr) api_.destroy_vector(x_);
    if (y_ != nullptr) api_.destroy_vector(y_);
  }
  std::string detail() const override { return "cuSPARSE SpMV " + algorithm_name_; }

 protected:
  Status describe_operands() override {
    if (y_ != nullptr) return {};
    const OperatorSpec& spec = problem_.spec();
    SPARSMITH_ASSIGN_OR_RETURN(const VendorProblem::Activations* const operands, problem_.activations(layout_));
    SPARSMITH_RETURN_IF_ERROR(api_.check(
        api_.create_vector(&x_, spec.cols, pointer(operands->x.address()), cuda_data_type(spec.type)), "describing x"));
    return api_.check(api_.create_vector(&y_, spec.rows, pointer(operands->y.address()), cuda_data_type(spec.type)),
                      "describing y");
  }
  cusparseStatus_t buffer_size(cusparseSpMatDescr_t matrix, std::size_t* bytes) override {
    return api_.spmv_buffer_size(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha_, matrix, x_, &beta_, y_, CUDA_R_32F,
                                 algorithm_, bytes);
  }
  cusparseStatus_t preprocess(cusparseSpMatDescr_t matrix, void* buffer) override {
    if (api_.spmv_preprocess == nullptr) return CUSPARSE_STATUS_SUCCESS;
    return api_.spmv_preprocess(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha_, matrix, x_, &beta_, y_, CUDA_R_32F,
                                algorithm_, buffer);
  }
  cusparseStatus_t run(cusparseSpMatDescr_t matrix, void* buffer) override {
    return api_.spmv(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha_, matrix, x_, &beta_, y_, CUDA_R_32F, algorithm_,
                     buffer);
  }

 private:
  cusparseSpMVAlg_t algorithm_;
  cusparseDnVecDescr_t x_ = nullptr;
  cusparseDnVecDescr_t y_ = nullptr;
};

class SpmmWork : public CusparseWork {
 public:
  SpmmWork(const Cusparse& api, cusparseHandle_t handle, VendorProblem& problem, std::shared_ptr<CsrOnDevice> weight,
           std::string algorithm_name, cusparseSpMMAlg_t algorithm, Layout layout)
      : CusparseWork(api, handle, problem, std::move(weight), std::move(algorithm_name), layout),
        algorithm_(algorithm) {}
  ~SpmmWork() override {
    if (x_ != nullptr) api_.destroy_dense(x_);
    if (y_ != nullptr) api_.destroy_dense(y_);
  }
  std::string detail() const override {
    return fmt::format("cuSPARSE SpMM {}, X {}", algorithm_name_,
                       layout_ == Layout::kTokenMajor ? "column-major" : "row-major");
  }

 protected:
  Status describe_operands() override {
    if (y_ != nullptr) return {};
    const OperatorSpec& spec = problem_.spec();
    const cusparseOrder_t order = layout_ == Layout::kTokenMajor ? CUSPARSE_ORDER_COL : CUSPARSE_ORDER_ROW;
    SPARSMITH_ASSIGN_OR_RETURN(const VendorProblem::Activations* const operands, problem_.activations(layout_));
    SPARSMITH_RETURN_IF_ERROR(
        api_.check(api_.create_dense(&x_, spec.cols, problem_.tokens(), operands->ldx, pointer(operands->x.address()),
                                     cuda_data_type(spec.type), order),
                   "describing X"));
    return api_.check(api_.create_dense(&y_, spec.rows, problem_.tokens(), operands->ldy,
                                        pointer(operands->y.address()), cuda_data_type(spec.type), order),
                      "describing Y");
  }
  cusparseStatus_t buffer_size(cusparseSpMatDescr_t matrix, std::size_t* bytes) override {
    return api_.spmm_buffer_size(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha_,
                                 matrix, x_, &beta_, y_, CUDA_R_32F, algorithm_, bytes);
  }
  cusparseStatus_t preprocess(cusparseSpMatDescr_t matrix, void* buffer) override {
    return api_.spmm_preprocess(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha_,
                                matrix, x_, &beta_, y_, CUDA_R_32F, algorithm_, buffer);
  }
  cusparseStatus_t run(cusparseSpMatDescr_t matrix, void* buffer) override {
    return api_.spmm(handle_, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha_, matrix, x_,
                     &beta_, y_, CUDA_R_32F, algorithm_, buffer);
  }

 private:
  cusparseSpMMAlg_t algorithm_;
  cusparseDnMatDescr_t x_ = nullptr;
  cusparseDnMatDescr_t y_ = nullptr;
};

class CusparseVendor : public Vendor {
 public:
  explicit CusparseVendor(GpuExecutor& executor) : executor_(executor) {}
  ~CusparseVendor() override {
    if (handle_ != nullptr) api_.destroy(handle_);
  }

  Status open() {
    // cuSPARSE needs it; from a folder of wheels the loader does not find it by itself.
    (void)CudaLibrary::open({"libnvJitLink.so.13", "libnvJitLink.so.12"});
    SPARSMITH_ASSIGN_OR_RETURN(const CudaLibrary library,
                               CudaLibrary::open({"libcusparse.so.12", "libcusparse.so.13"}));
    SPARSMITH_RETURN_IF_ERROR(api_.bind(library));
    return api_.check(api_.create(&handle_), "starting");
  }

  void forget_weight() override { weight_.reset(); }

  Result<std::vector<std::unique_ptr<VendorWork>>> works(VendorProblem& problem) override {
    std::vector<std::unique_ptr<VendorWork>> works;
    const CsrMatrix& matrix = problem.matrix();
    if (matrix.nnz() == 0 || problem.tokens() == 0) return unsupported("nothing to multiply");
    if (matrix.nnz() > std::numeric_limits<std::int32_t>::max())
      return unsupported("more nonzeros than 32-bit offsets can count");
    if (weight_ == nullptr) SPARSMITH_RETURN_IF_ERROR(upload(problem));

    if (problem.tokens() == 1) {
      const std::pair<const char*, cusparseSpMVAlg_t> algorithms[] = {{"ALG_DEFAULT", CUSPARSE_SPMV_ALG_DEFAULT},
                                                                      {"CSR_ALG1", CUSPARSE_SPMV_CSR_ALG1},
                                                                      {"CSR_ALG2", CUSPARSE_SPMV_CSR_ALG2}};
      for (const auto& [name, algorithm] : algorithms)
        works.push_back(std::make_unique<SpmvWork>(api_, handle_, problem, weight_, name, algorithm));
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
  Status upload(const VendorProblem& problem) {
    const CsrMatrix& matrix = problem.matrix();
    const std::vector<std::int32_t> offsets(matrix.row_offsets.begin(), matrix.row_offsets.end());
    ElementBuffer values(problem.spec().type, matrix.nnz());
    for (std::int64_t i = 0; i < matrix.nnz(); ++i) values.set(i, problem.values()[i]);
    auto csr = std::make_shared<CsrOnDevice>();
    SPARSMITH_ASSIGN_OR_RETURN(csr->row_offsets,
                               DeviceAllocation::holding(executor_, std::as_bytes(std::span(offsets))));
    SPARSMITH_ASSIGN_OR_RETURN(csr->columns,
                               DeviceAllocation::holding(executor_, std::as_bytes(std::span(matrix.column_indices))));
    SPARSMITH_ASSIGN_OR_RETURN(csr->values, DeviceAllocation::holding(executor_, values.bytes()));
    csr->copies = DeviceCopies(executor_, {{csr->row_offsets.address(), csr->row_offsets.bytes()},
                                           {csr->columns.address(), csr->columns.bytes()},
                                           {csr->values.address(), csr->values.bytes()}});
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
