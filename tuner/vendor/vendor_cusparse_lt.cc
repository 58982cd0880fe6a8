// cuSPARSELt: weights with at most two nonzeros in each aligned group of four columns, on sparse tensor cores. All its
// algorithms, with its ways to split the columns, for X and Y row-major and column-major.
//
// fp16 and bf16 with fp32 accumulation. W is row-major and compressed once; all algorithms read the same compressed
// weight. token_major X[N][K] is a row-major N x K matrix that is transposed, and Y[N][M] a column-major M x N one.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "formats/two_four.h"
#include "runtime/cuda_data_type.h"
#include "runtime/cuda_library.h"
#include "tuner/time/device_copies.h"
#include "tuner/vendor/cusparse_lt.h"
#include "tuner/vendor/vendor.h"

namespace sparsmith {
namespace {

using cusparse_lt::Attribute;
using cusparse_lt::Handle;
using cusparse_lt::Matrix;
using cusparse_lt::Plan;
using cusparse_lt::Product;
using cusparse_lt::Selection;

constexpr std::uint32_t kAlignment = 16;  // bytes; allocations have 256
constexpr std::int64_t kWeightMultiple = 16;
constexpr std::int64_t kTokenMultiple = 8;

struct CusparseLt {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define SPARSMITH_CUSPARSE_LT_MEMBER(name, parameters) cusparseStatus_t(*name) parameters = nullptr;
  SPARSMITH_CUSPARSE_LT_FUNCTIONS(SPARSMITH_CUSPARSE_LT_MEMBER)
#undef SPARSMITH_CUSPARSE_LT_MEMBER
  const char* (*GetErrorString)(cusparseStatus_t) = nullptr;

  Status bind(const CudaLibrary& library) {
#define SPARSMITH_CUSPARSE_LT_LOAD(name, parameters) SPARSMITH_RETURN_IF_ERROR(library.bind("cusparseLt" #name, name));
    SPARSMITH_CUSPARSE_LT_FUNCTIONS(SPARSMITH_CUSPARSE_LT_LOAD)
#undef SPARSMITH_CUSPARSE_LT_LOAD
    return library.bind("cusparseLtGetErrorString", GetErrorString);
  }

  // A call that the library does not take says nothing about the device.
  Status check(cusparseStatus_t status, const char* what) const {
    if (status == CUSPARSE_STATUS_SUCCESS) return {};
    const std::string message = fmt::format("cuSPARSELt: {}: {}", what, GetErrorString(status));
    const bool refused = status == CUSPARSE_STATUS_NOT_SUPPORTED || status == CUSPARSE_STATUS_INVALID_VALUE;
    return refused ? unsupported(message) : device_error(message);
  }
};

// A structure of the library. Once initialized, it is given back by `destroy`, where there is such a function.
template <class Structure>
struct GiveBack {
  cusparseStatus_t (*destroy)(const Structure*) = nullptr;
  void operator()(Structure* structure) const {
    if (destroy != nullptr) destroy(structure);
    delete structure;
  }
};
template <class Structure>
using Owned = std::unique_ptr<Structure, GiveBack<Structure>>;

// `init(structure)` initializes it.
template <class Structure, class Init>
Result<Owned<Structure>> make(const CusparseLt& api, cusparseStatus_t (*destroy)(const Structure*), const char* what,
                              const Init& init) {
  Owned<Structure> structure(new Structure());
  SPARSMITH_RETURN_IF_ERROR(api.check(init(structure.get()), what));
  structure.get_deleter().destroy = destroy;
  return structure;
}

void* pointer(DeviceAddress address) { return reinterpret_cast<void*>(address); }

// The compressed weight on the GPU and its copies. All algorithms and problems with this weight share them.
struct CompressedWeight {
  Owned<Matrix> matrix;
  DeviceAllocation compressed;
  DeviceCopies copies;
};

// A way to split the columns. One part: the library does not split them.
struct Split {
  int parts;
  int mode;
  const char* name;
};

Status select(const CusparseLt& api, const Handle& handle, Selection& selection, int algorithm, const Split& split) {
  const auto set = [&](Attribute attribute, int value) {
    return api.check(api.MatmulAlgSetAttribute(&handle, &selection, attribute, &value, sizeof(value)),
                     "selecting an algorithm");
  };
  SPARSMITH_RETURN_IF_ERROR(set(Attribute::kAlgorithm, algorithm));
  if (split.parts == 1) return {};
  SPARSMITH_RETURN_IF_ERROR(set(Attribute::kSplitK, split.parts));
  return set(Attribute::kSplitKMode, split.mode);
}

// The product in one layout of X and Y.
struct LayoutProduct {
  Layout layout;
  Owned<Matrix> x;
  Owned<Matrix> y;
  Owned<Product> product;

  // May take the library 0.3 s.
  Result<Owned<Selection>> make_selection(const CusparseLt& api, const Handle& handle) const {
    return make<Selection>(api, api.MatmulAlgSelectionDestroy, "selecting an algorithm", [&](Selection* selection) {
      return api.MatmulAlgSelectionInit(&handle, selection, product.get(), cusparse_lt::kDefaultAlgorithm);
    });
  }
};

// The library refuses those that the device's kernels lack: on compute capability 9.0 all but the first. (Its own
// choice of a split is left out: there algorithm 0 took the same time with 8, 128 and 2,048 tokens.)
constexpr Split kSplits[] = {
    {1, 0, ""},
    {2, 1, ", split-K 2 in one kernel"},
    {2, 2, ", split-K 2 in two kernels"},
    {4, 1, ", split-K 4 in one kernel"},
    {4, 2, ", split-K 4 in two kernels"},
    {8, 1, ", split-K 8 in one kernel"},
    {8, 2, ", split-K 8 in two kernels"},
};

class CusparseLtWork : public VendorWork {
 public:
  CusparseLtWork(const CusparseLt& api, const Handle& handle, VendorProblem& problem,
                 std::shared_ptr<CompressedWeight> weight, std::shared_ptr<LayoutProduct> product, int algorithm,
                 const Split& split)
      : api_(api),
        handle_(handle),
        problem_(problem),
        alpha_(problem.plain().alpha()),
        weight_(std::move(weight)),
        product_(std::move(product)),
        algorithm_(algorithm),
        split_(split) {}

  std::int64_t weight_bytes() const override { return static_cast<std::int64_t>(weight_->compressed.bytes()); }
  std::int64_t bytes_on_gpu() const override { return weight_bytes(); }
  Layout layout() const override { return product_->layout; }
  std::string detail() const override {
    return fmt::format("cuSPARSELt algorithm {}{}, X {}", algorithm_, split_.name,
                       layout() == Layout::kTokenMajor ? "column-major" : "row-major");
  }

  Status make_copies(int count) override {
    SPARSMITH_RETURN_IF_ERROR(make_plan());
    return weight_->copies.make(count);
  }

  Status enqueue(CUstream stream, int copy) override {
    const float beta = 0;
    void* const y = pointer(operands_->y.address());
    return api_.check(
        api_.Matmul(&handle_, plan_.get(), &alpha_, pointer(weight_->copies.address(copy, 0)),
                    pointer(operands_->x.address()), &beta, y, y, pointer(workspace_.address()), &stream, 1),
        "running");
  }

 private:
  Status make_plan() {
    if (plan_ != nullptr) return {};
    SPARSMITH_ASSIGN_OR_RETURN(operands_, problem_.activations(layout()));
    SPARSMITH_ASSIGN_OR_RETURN(selection_, product_->make_selection(api_, handle_));
    SPARSMITH_RETURN_IF_ERROR(select(api_, handle_, *selection_, algorithm_, split_));
    const auto init = [&](Plan* plan) {
      return api_.MatmulPlanInit(&handle_, plan, product_->product.get(), selection_.get());
    };
    SPARSMITH_ASSIGN_OR_RETURN(Owned<Plan> plan, make<Plan>(api_, api_.MatmulPlanDestroy, "planning", init));
    std::size_t bytes = 0;
    SPARSMITH_RETURN_IF_ERROR(
        api_.check(api_.MatmulGetWorkspace(&handle_, plan.get(), &bytes), "asking for a workspace"));
    if (bytes > 0) {
      GpuExecutor& executor = problem_.executor();
      SPARSMITH_ASSIGN_OR_RETURN(workspace_, DeviceAllocation::make(executor, bytes));
      SPARSMITH_RETURN_IF_ERROR(executor.fill(workspace_.address(), std::byte{0}, bytes));
    }
    plan_ = std::move(plan);
    return {};
  }

  const CusparseLt& api_;
  const Handle& handle_;
  VendorProblem& problem_;
  const float alpha_;
  std::shared_ptr<CompressedWeight> weight_;
  std::shared_ptr<LayoutProduct> product_;
  int algorithm_;
  Split split_;
  Owned<Selection> selection_;
  const VendorProblem::Activations* operands_ = nullptr;
  DeviceAllocation workspace_;
  Owned<Plan> plan_;
};

// Error: kUnsupported, with the reason, where the library does not compute this problem.
Status check_problem(const ReferenceProblem& problem) {
  const CsrMatrix& matrix = problem.matrix();
  if (matrix.nnz() == 0 || problem.tokens() == 0) return unsupported("nothing to multiply");
  if (problem.spec().type != DataType::kFloat16 && problem.spec().type != DataType::kBFloat16)
    return unsupported("cuSPARSELt takes fp16 and bf16 weights with 2:4 zeros, and this one is fp32");
  if (matrix.rows % kWeightMultiple != 0 || matrix.cols % kWeightMultiple != 0)
    return unsupported(
        fmt::format("cuSPARSELt takes weights whose rows and columns are multiples of {}", kWeightMultiple));
  if (problem.tokens() % kTokenMultiple != 0)
    return unsupported(fmt::format("cuSPARSELt takes multiples of {} tokens", kTokenMultiple));
  const Status two_four = check_two_four(matrix);
  return two_four.ok() ? two_four : unsupported("cuSPARSELt takes 2:4 weights: " + two_four.message());
}

class CusparseLtVendor : public Vendor {
 public:
  explicit CusparseLtVendor(GpuExecutor& executor) : executor_(executor) {}

  Status open() {
    SPARSMITH_ASSIGN_OR_RETURN(const CudaLibrary library, CudaLibrary::open({"libcusparseLt.so.0"}));
    SPARSMITH_RETURN_IF_ERROR(api_.bind(library));
    SPARSMITH_ASSIGN_OR_RETURN(
        handle_, make<Handle>(api_, api_.Destroy, "starting", [&](Handle* handle) { return api_.Init(handle); }));
    int version = 0;
    SPARSMITH_RETURN_IF_ERROR(api_.check(api_.GetVersion(handle_.get(), &version), "asking for the version"));
    if (version >= cusparse_lt::kFirstVersion && version < cusparse_lt::kEndVersion) return {};
    return unsupported(fmt::format("{} is cuSPARSELt {}.{}.{}; install 0.8 (pip install nvidia-cusparselt-cu13==0.8.0)",
                                   library.path(), version / 1000, version / 100 % 10, version % 100));
  }

  void forget_weight() override { weight_.reset(); }

  Result<std::vector<std::unique_ptr<VendorWork>>> works(VendorProblem& problem) override {
    SPARSMITH_RETURN_IF_ERROR(check_problem(problem.plain()));
    if (weight_ == nullptr) SPARSMITH_RETURN_IF_ERROR(compress(problem.plain()));
    std::vector<std::shared_ptr<LayoutProduct>> products;
    Status refused;
    for (const Layout layout : {Layout::kTokenMajor, Layout::kFeatureMajor}) {
      auto product = describe(problem.plain(), layout);
      if (product.ok())
        products.push_back(*std::move(product));
      else
        refused = product.status();
    }
    if (products.empty()) return refused;

    std::vector<std::unique_ptr<VendorWork>> works;
    for (const std::shared_ptr<LayoutProduct>& product : products) {
      SPARSMITH_ASSIGN_OR_RETURN(const Owned<Selection> selection, product->make_selection(api_, *handle_));
      SPARSMITH_ASSIGN_OR_RETURN(const int algorithms, count_algorithms(*selection));
      for (const Split& split : kSplits) {
        for (int algorithm = 0; algorithm < algorithms; ++algorithm) {
          if (!select(api_, *handle_, *selection, algorithm, split).ok()) continue;  // the library has no such kernel
          works.push_back(
              std::make_unique<CusparseLtWork>(api_, *handle_, problem, weight_, product, algorithm, split));
        }
      }
    }
    return works;
  }

 private:
  Status compress(const ReferenceProblem& problem) {
    const CsrMatrix& matrix = problem.matrix();
    ElementBuffer values(problem.spec().type, matrix.rows * matrix.cols);
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      for (std::int64_t i = matrix.row_offsets[row]; i < matrix.row_offsets[row + 1]; ++i)
        values.set(row * matrix.cols + matrix.column_indices[i], problem.values()[i]);
    }
    auto weight = std::make_shared<CompressedWeight>();
    const auto init = [&](Matrix* structured) {
      return api_.StructuredDescriptorInit(handle_.get(), structured, matrix.rows, matrix.cols, matrix.cols, kAlignment,
                                           cuda_data_type(problem.spec().type), CUSPARSE_ORDER_ROW,
                                           cusparse_lt::kTwoOfFour);
    };
    SPARSMITH_ASSIGN_OR_RETURN(weight->matrix,
                               make<Matrix>(api_, api_.MatDescriptorDestroy, "describing the weight", init));
    std::size_t bytes = 0;
    std::size_t buffer_bytes = 0;
    SPARSMITH_RETURN_IF_ERROR(
        api_.check(api_.SpMMACompressedSize2(handle_.get(), weight->matrix.get(), &bytes, &buffer_bytes),
                   "asking for the bytes of the compressed weight"));
    SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation dense, DeviceAllocation::holding(executor_, values.bytes()));
    SPARSMITH_ASSIGN_OR_RETURN(const DeviceAllocation buffer, DeviceAllocation::make(executor_, buffer_bytes));
    SPARSMITH_ASSIGN_OR_RETURN(weight->compressed, DeviceAllocation::make(executor_, bytes));
    SPARSMITH_RETURN_IF_ERROR(api_.check(
        api_.SpMMACompress2(handle_.get(), weight->matrix.get(), /*is_a=*/1, CUSPARSE_OPERATION_NON_TRANSPOSE,
                            pointer(dense.address()), pointer(weight->compressed.address()), pointer(buffer.address()),
                            executor_.stream()),
        "compressing the weight"));
    const CudaDriver& driver = executor_.driver();
    SPARSMITH_RETURN_IF_ERROR(driver.check(driver.StreamSynchronize(executor_.stream()), "compressing the weight"));
    weight->copies = DeviceCopies(executor_, {{weight->compressed.address(), bytes}});
    weight_ = std::move(weight);
    return {};
  }

  Result<std::shared_ptr<LayoutProduct>> describe(const ReferenceProblem& problem, Layout layout) {
    const OperatorSpec& spec = problem.spec();
    const std::int64_t tokens = problem.tokens();
    const auto dense = [&](std::int64_t rows, std::int64_t cols, std::int64_t ld, cusparseOrder_t order) {
      return make<Matrix>(api_, api_.MatDescriptorDestroy, "describing X or Y", [&](Matrix* matrix) {
        return api_.DenseDescriptorInit(handle_.get(), matrix, rows, cols, ld, kAlignment, cuda_data_type(spec.type),
                                        order);
      });
    };
    const bool token_major = layout == Layout::kTokenMajor;
    auto product = std::make_shared<LayoutProduct>();
    product->layout = layout;
    SPARSMITH_ASSIGN_OR_RETURN(product->x, token_major ? dense(tokens, spec.cols, spec.cols, CUSPARSE_ORDER_ROW)
                                                       : dense(spec.cols, tokens, tokens, CUSPARSE_ORDER_ROW));
    SPARSMITH_ASSIGN_OR_RETURN(product->y, token_major ? dense(spec.rows, tokens, spec.rows, CUSPARSE_ORDER_COL)
                                                       : dense(spec.rows, tokens, tokens, CUSPARSE_ORDER_ROW));
    const auto init = [&](Product* descriptor) {
      return api_.MatmulDescriptorInit(handle_.get(), descriptor, CUSPARSE_OPERATION_NON_TRANSPOSE,
                                       token_major ? CUSPARSE_OPERATION_TRANSPOSE : CUSPARSE_OPERATION_NON_TRANSPOSE,
                                       weight_->matrix.get(), product->x.get(), product->y.get(), product->y.get(),
                                       cusparse_lt::kFloat32Sums);
    };
    SPARSMITH_ASSIGN_OR_RETURN(product->product, make<Product>(api_, nullptr, "describing the product", init));
    return product;
  }

  Result<int> count_algorithms(const Selection& selection) {
    int count = 0;
    SPARSMITH_RETURN_IF_ERROR(
        api_.check(api_.MatmulAlgGetAttribute(handle_.get(), &selection, Attribute::kAlgorithms, &count, sizeof(count)),
                   "counting algorithms"));
    return count;
  }

  GpuExecutor& executor_;
  CusparseLt api_;
  Owned<Handle> handle_;
  std::shared_ptr<CompressedWeight> weight_;
};

}  // namespace

Result<std::unique_ptr<Vendor>> open_cusparse_lt(GpuExecutor& executor) {
  auto vendor = std::make_unique<CusparseLtVendor>(executor);
  SPARSMITH_RETURN_IF_ERROR(vendor->open());
  return std::unique_ptr<Vendor>(std::move(vendor));
}

}  // namespace sparsmith
