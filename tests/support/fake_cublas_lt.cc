// A cuBLASLt for tests, built as libcublasLt.so.13 beside the fake driver: products of column-major matrices in three
// loops, with the epilogues default, bias, relu and both. Written from the library's documentation, not from our
// use of it, so that a wrong layout or leading dimension shows.
#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/half.h"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

struct Layout {
  cudaDataType_t type;
  std::uint64_t rows;
  std::uint64_t cols;
  std::int64_t ld;
};
struct Operation {
  cublasOperation_t op_a;
  cublasOperation_t op_b;
  cublasLtEpilogue_t epilogue;
  const void* bias;  // of D's type
};
struct Preference {
  std::uint64_t is_made;
};
constexpr std::uint64_t kMade = 0x5EED;
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Operation) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));

template <class T>
T read(const void* opaque) {
  T value;
  std::memcpy(&value, opaque, sizeof(T));
  return value;
}
template <class T>
void write(void* opaque, const T& value) {
  std::memcpy(opaque, &value, sizeof(T));
}

bool is_float(cudaDataType_t type) { return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF; }

float element(const void* data, cudaDataType_t type, std::uint64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[i];
  return type == CUDA_R_16F ? sparsmith::float_from_fp16(bits) : sparsmith::float_from_bf16(bits);
}

void set_element(void* data, cudaDataType_t type, std::uint64_t i, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[i] = value;
    return;
  }
  static_cast<std::uint16_t*>(data)[i] =
      type == CUDA_R_16F ? sparsmith::fp16_from_float(value) : sparsmith::bf16_from_float(value);
}

}  // namespace

FAKE std::size_t cublasLtGetVersion() { return 130000; }
FAKE cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation, std::size_t,
                                                    cublasComputeType_t compute, cudaDataType_t) {
  if (compute != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  write(operation, Operation{CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr});
  return CUBLAS_STATUS_SUCCESS;
}
FAKE cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque,
                                                   cublasLtMatmulDescAttributes_t attribute, const void* value,
                                                   std::size_t) {
  auto operation = read<Operation>(opaque);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: operation.op_a = read<cublasOperation_t>(value); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: operation.op_b = read<cublasOperation_t>(value); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: operation.epilogue = read<cublasLtEpilogue_t>(value); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: operation.bias = read<const void*>(value); break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  write(opaque, operation);
  return CUBLAS_STATUS_SUCCESS;
}
FAKE cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t, cudaDataType type,
                                                      std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  if (!is_float(type) || static_cast<std::uint64_t>(ld) < rows) return CUBLAS_STATUS_INVALID_VALUE;
  write(layout, Layout{type, rows, cols, ld});
  return CUBLAS_STATUS_SUCCESS;
}
FAKE cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, std::size_t) {
  write(preference, Preference{kMade});
  return CUBLAS_STATUS_SUCCESS;
}
FAKE cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                         cublasLtMatmulPreferenceAttributes_t, const void*,
                                                         std::size_t) {
  return read<Preference>(preference).is_made == kMade ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
// For columns of D it proposes as many algorithms as there are columns, three at most; number 2 of them serves even
// counts of columns alone. Which one a product was told to take stands in fake_cublas_lt_took, and how often somebody
// asked in fake_cublas_lt_asked.
FAKE std::uint64_t fake_cublas_lt_asked = 0;
FAKE cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                                   cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                   cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int wanted,
                                                   cublasLtMatmulHeuristicResult_t results[], int* found) {
  ++fake_cublas_lt_asked;
  *found = std::min({wanted, 3, static_cast<int>(read<Layout>(d).cols)});
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<std::uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}
FAKE cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                            cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                            const cublasLtMatmulAlgo_t* algorithm,
                                            cublasLtMatmulHeuristicResult_t* result) {
  result->workspaceSize = 0;
  return algorithm->data[0] == 2 && read<Layout>(d).cols % 2 == 1 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}
FAKE std::uint64_t fake_cublas_lt_took = 0;
FAKE cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a_data,
                                   cublasLtMatrixLayout_t a_layout, const void* b_data, cublasLtMatrixLayout_t b_layout,
                                   const void* beta, const void* c_data, cublasLtMatrixLayout_t c_layout, void* d_data,
                                   cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void*,
                                   std::size_t, cudaStream_t) {
  fake_cublas_lt_took = algorithm->data[0];
  const auto operation = read<Operation>(desc);
  const auto a = read<Layout>(a_layout);
  const auto b = read<Layout>(b_layout);
  const auto c = read<Layout>(c_layout);
  const auto d = read<Layout>(d_layout);
  const bool turned_a = operation.op_a == CUBLAS_OP_T;
  const bool turned_b = operation.op_b == CUBLAS_OP_T;
  const std::uint64_t inner = turned_a ? a.rows : a.cols;
  if (inner != (turned_b ? b.cols : b.rows) || d.rows != (turned_a ? a.cols : a.rows) ||
      d.cols != (turned_b ? b.rows : b.cols) || c.rows != d.rows || c.cols != d.cols) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto at = [](const void* data, const Layout& layout, std::uint64_t row, std::uint64_t col) {
    return element(data, layout.type, row + col * static_cast<std::uint64_t>(layout.ld));
  };
  const bool bias = (operation.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  const bool relu = (operation.epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
  for (std::uint64_t col = 0; col < d.cols; ++col) {
    for (std::uint64_t row = 0; row < d.rows; ++row) {
      float sum = 0;
      for (std::uint64_t i = 0; i < inner; ++i) {
        sum += (turned_a ? at(a_data, a, i, row) : at(a_data, a, row, i)) *
               (turned_b ? at(b_data, b, col, i) : at(b_data, b, i, col));
      }
      float value = read<float>(alpha) * sum;
      if (read<float>(beta) != 0) value += read<float>(beta) * at(c_data, c, row, col);
      if (bias) value += element(operation.bias, d.type, row);
      if (relu) value = std::max(value, 0.0F);
      set_element(d_data, d.type, row + col * static_cast<std::uint64_t>(d.ld), value);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}
