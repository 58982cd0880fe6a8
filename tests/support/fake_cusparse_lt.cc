// A cuSPARSELt for tests, built as libcusparseLt.so.0 beside the fake driver: products of a 2:4 matrix in three loops.
// Written from the library's documentation, not from our use of it, so that a wrong order, operation or leading
// dimension shows. It is as strict as the library on compute capability 9.0: dimensions are multiples of 16 (8 where
// dense), columns are split into one part or by the library (-1).
//
// It has three algorithms. Number 1 cannot be planned. What splits columns wants a zeroed workspace.
#include "tuner/vendor/cusparse_lt.h"

#include <cstring>

#include "base/half.h"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

using sparsmith::cusparse_lt::Attribute;
using sparsmith::cusparse_lt::Handle;
using sparsmith::cusparse_lt::Matrix;
using sparsmith::cusparse_lt::Opaque;
using sparsmith::cusparse_lt::Plan;
using sparsmith::cusparse_lt::Product;
using sparsmith::cusparse_lt::Selection;

constexpr std::uint64_t kInitialized = 0x5EED;
constexpr int kAlgorithms = 3;
constexpr std::size_t kWorkspaceBytes = 64;
constexpr std::size_t kBufferBytes = 32;

struct MatrixContents {
  std::uint64_t initialized;
  std::int64_t rows, cols, ld;
  cudaDataType_t type;
  cusparseOrder_t order;
  bool structured;
};
struct ProductContents {
  const Matrix* a;
  const Matrix* b;
  const Matrix* d;
  bool transposed_b;
};
struct SelectionContents {
  const Product* product;
  int algorithm, split;
  bool operator==(const SelectionContents&) const = default;
};
// A run reads the selection again, which has to be as it was planned.
struct PlanContents {
  const Selection* selection;
  SelectionContents planned;
};
struct Group {
  std::uint16_t values[2];
  std::uint8_t places[2];
};

template <class T>
T read(const Opaque* opaque) {
  T value;
  std::memcpy(&value, opaque, sizeof(T));
  return value;
}
template <class T>
cusparseStatus_t write(Opaque* opaque, const T& value) {
  std::memcpy(static_cast<void*>(opaque), &value, sizeof(T));
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t describe(Matrix* matrix, const MatrixContents& contents, std::int64_t multiple,
                          std::uint32_t alignment) {
  const bool by_row = contents.order == CUSPARSE_ORDER_ROW;
  if (contents.rows % multiple != 0 || contents.cols % multiple != 0) return CUSPARSE_STATUS_NOT_SUPPORTED;
  if (contents.type != CUDA_R_16F && contents.type != CUDA_R_16BF) return CUSPARSE_STATUS_NOT_SUPPORTED;
  if (contents.ld < (by_row ? contents.cols : contents.rows) || alignment % 16 != 0)
    return CUSPARSE_STATUS_INVALID_VALUE;
  return write(matrix, contents);
}

std::int64_t index_in(const MatrixContents& matrix, std::int64_t row, std::int64_t col) {
  return matrix.order == CUSPARSE_ORDER_ROW ? row * matrix.ld + col : col * matrix.ld + row;
}

float float_of(std::uint16_t bits, cudaDataType_t type) {
  return type == CUDA_R_16F ? sparsmith::float_from_fp16(bits) : sparsmith::float_from_bf16(bits);
}

}  // namespace

FAKE int fake_cusparse_lt_version = 800;
FAKE int fake_cusparse_lt_failing = -1;    // an algorithm whose runs fail, and leave the device as it was
FAKE int fake_cusparse_lt_selections = 0;  // made so far; the library takes up to 0.3 s for each
FAKE cusparseStatus_t cusparseLtInit(Handle* handle) { return write(handle, kInitialized); }
FAKE cusparseStatus_t cusparseLtDestroy(const Handle* handle) {
  return read<std::uint64_t>(handle) == kInitialized ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}
FAKE cusparseStatus_t cusparseLtGetVersion(const Handle*, int* version) {
  *version = fake_cusparse_lt_version;
  return CUSPARSE_STATUS_SUCCESS;
}
FAKE const char* cusparseLtGetErrorString(cusparseStatus_t) { return "a fake error"; }

FAKE cusparseStatus_t cusparseLtDenseDescriptorInit(const Handle*, Matrix* matrix, std::int64_t rows, std::int64_t cols,
                                                    std::int64_t ld, std::uint32_t alignment, cudaDataType_t type,
                                                    cusparseOrder_t order) {
  return describe(matrix, {kInitialized, rows, cols, ld, type, order, false}, 8, alignment);
}
FAKE cusparseStatus_t cusparseLtStructuredDescriptorInit(const Handle*, Matrix* matrix, std::int64_t rows,
                                                         std::int64_t cols, std::int64_t ld, std::uint32_t alignment,
                                                         cudaDataType_t type, cusparseOrder_t order, int sparsity) {
  if (sparsity != 0) return CUSPARSE_STATUS_INVALID_VALUE;
  return describe(matrix, {kInitialized, rows, cols, ld, type, order, true}, 16, alignment);
}
FAKE cusparseStatus_t cusparseLtMatDescriptorDestroy(const Matrix*) { return CUSPARSE_STATUS_SUCCESS; }

// The matrices are those that stand at their addresses when the product is planned or run.
FAKE cusparseStatus_t cusparseLtMatmulDescriptorInit(const Handle*, Product* product, cusparseOperation_t of_a,
                                                     cusparseOperation_t of_b, const Matrix* a, const Matrix* b,
                                                     const Matrix* c, const Matrix* d, int sums) {
  const auto matrix_a = read<MatrixContents>(a);
  const auto matrix_b = read<MatrixContents>(b);
  const auto matrix_d = read<MatrixContents>(d);
  const bool transposed_b = of_b == CUSPARSE_OPERATION_TRANSPOSE;
  if (of_a != CUSPARSE_OPERATION_NON_TRANSPOSE || !matrix_a.structured || matrix_b.structured || c != d || sums != 2)
    return CUSPARSE_STATUS_NOT_SUPPORTED;
  if ((transposed_b ? matrix_b.cols : matrix_b.rows) != matrix_a.cols || matrix_d.rows != matrix_a.rows ||
      matrix_d.cols != (transposed_b ? matrix_b.rows : matrix_b.cols))
    return CUSPARSE_STATUS_INVALID_VALUE;
  return write(product, ProductContents{a, b, d, transposed_b});
}

FAKE cusparseStatus_t cusparseLtMatmulAlgSelectionInit(const Handle*, Selection* selection, const Product* product,
                                                       int algorithm) {
  ++fake_cusparse_lt_selections;
  return algorithm != 0 ? CUSPARSE_STATUS_INVALID_VALUE : write(selection, SelectionContents{product, 0, 1});
}
FAKE cusparseStatus_t cusparseLtMatmulAlgSelectionDestroy(const Selection*) { return CUSPARSE_STATUS_SUCCESS; }
FAKE cusparseStatus_t cusparseLtMatmulAlgGetAttribute(const Handle*, const Selection*, Attribute attribute, void* value,
                                                      std::size_t bytes) {
  if (attribute != Attribute::kAlgorithms || bytes != sizeof(int)) return CUSPARSE_STATUS_INVALID_VALUE;
  *static_cast<int*>(value) = kAlgorithms;
  return CUSPARSE_STATUS_SUCCESS;
}
FAKE cusparseStatus_t cusparseLtMatmulAlgSetAttribute(const Handle*, Selection* selection, Attribute attribute,
                                                      const void* value, std::size_t bytes) {
  auto contents = read<SelectionContents>(selection);
  if (bytes != sizeof(int)) return CUSPARSE_STATUS_INVALID_VALUE;
  const int number = *static_cast<const int*>(value);
  if (attribute == Attribute::kAlgorithm && number >= 0 && number < kAlgorithms)
    contents.algorithm = number;
  else if (attribute == Attribute::kSplitK && number == 2)
    contents.split = number;
  else if (attribute == Attribute::kSplitKMode && number == 1)
    return CUSPARSE_STATUS_SUCCESS;
  else
    return CUSPARSE_STATUS_INVALID_VALUE;
  return write(selection, contents);
}

FAKE cusparseStatus_t cusparseLtMatmulPlanInit(const Handle*, Plan* plan, const Product* product,
                                               const Selection* selection) {
  const auto contents = read<SelectionContents>(selection);
  if (contents.product != product) return CUSPARSE_STATUS_INVALID_VALUE;
  return contents.algorithm == 1 ? CUSPARSE_STATUS_NOT_SUPPORTED : write(plan, PlanContents{selection, contents});
}
FAKE cusparseStatus_t cusparseLtMatmulPlanDestroy(const Plan*) { return CUSPARSE_STATUS_SUCCESS; }
FAKE cusparseStatus_t cusparseLtMatmulGetWorkspace(const Handle*, const Plan* plan, std::size_t* bytes) {
  *bytes = read<PlanContents>(plan).planned.split == 2 ? kWorkspaceBytes : 0;
  return CUSPARSE_STATUS_SUCCESS;
}

FAKE cusparseStatus_t cusparseLtSpMMACompressedSize2(const Handle*, const Matrix* matrix, std::size_t* bytes,
                                                     std::size_t* buffer_bytes) {
  const auto contents = read<MatrixContents>(matrix);
  *bytes = static_cast<std::size_t>(contents.rows * contents.cols / 4) * sizeof(Group);
  *buffer_bytes = kBufferBytes;
  return CUSPARSE_STATUS_SUCCESS;
}
FAKE cusparseStatus_t cusparseLtSpMMACompress2(const Handle*, const Matrix* matrix, int is_a, cusparseOperation_t,
                                               const void* dense, void* compressed, void* buffer, cudaStream_t) {
  if (is_a == 0) return CUSPARSE_STATUS_NOT_SUPPORTED;
  const auto contents = read<MatrixContents>(matrix);
  std::memset(buffer, 0, kBufferBytes);
  auto* group = static_cast<Group*>(compressed);
  for (std::int64_t row = 0; row < contents.rows; ++row) {
    for (std::int64_t first = 0; first < contents.cols; first += 4, ++group) {
      *group = {};
      int count = 0;
      for (std::uint8_t place = 0; place < 4; ++place) {
        const auto bits = static_cast<const std::uint16_t*>(dense)[index_in(contents, row, first + place)];
        if ((bits & 0x7FFF) == 0) continue;
        if (count == 2) return CUSPARSE_STATUS_INVALID_VALUE;
        group->values[count] = bits;
        group->places[count++] = place;
      }
    }
  }
  return CUSPARSE_STATUS_SUCCESS;
}

FAKE cusparseStatus_t cusparseLtMatmul(const Handle*, const Plan* plan, const void* alpha, const void* compressed,
                                       const void* b_data, const void* beta, const void* /*c*/, void* d_data,
                                       void* workspace, cudaStream_t*, std::int32_t stream_count) {
  const auto [place, selection] = read<PlanContents>(plan);
  if (read<SelectionContents>(place) != selection) return CUSPARSE_STATUS_INVALID_VALUE;
  const auto product = read<ProductContents>(selection.product);
  const auto a = read<MatrixContents>(product.a);
  const auto b = read<MatrixContents>(product.b);
  const auto d = read<MatrixContents>(product.d);
  if (*static_cast<const float*>(beta) != 0 || stream_count != 1) return CUSPARSE_STATUS_NOT_SUPPORTED;
  if (selection.algorithm == fake_cusparse_lt_failing) return CUSPARSE_STATUS_INTERNAL_ERROR;
  if (selection.split == 2) {
    for (std::size_t i = 0; i < kWorkspaceBytes; ++i)
      if (static_cast<const char*>(workspace)[i] != 0) return CUSPARSE_STATUS_EXECUTION_FAILED;
  }
  for (std::int64_t row = 0; row < d.rows; ++row) {
    for (std::int64_t col = 0; col < d.cols; ++col) {
      const auto* group = static_cast<const Group*>(compressed) + row * a.cols / 4;
      float sum = 0;
      for (std::int64_t first = 0; first < a.cols; first += 4, ++group) {
        for (int i = 0; i < 2; ++i) {
          const std::int64_t inner = first + group->places[i];
          const std::int64_t at = product.transposed_b ? index_in(b, col, inner) : index_in(b, inner, col);
          sum += float_of(group->values[i], a.type) * float_of(static_cast<const std::uint16_t*>(b_data)[at], b.type);
        }
      }
      const float value = *static_cast<const float*>(alpha) * sum;
      static_cast<std::uint16_t*>(d_data)[index_in(d, row, col)] =
          d.type == CUDA_R_16F ? sparsmith::fp16_from_float(value) : sparsmith::bf16_from_float(value);
    }
  }
  return CUSPARSE_STATUS_SUCCESS;
}
