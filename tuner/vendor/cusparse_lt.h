// The part of cuSPARSELt's C interface that is called here, as of version 0.8. The declarations are ours, because the
// CUDA toolkit does not ship the library's header.
#pragma once

#include <cusparse.h>

#include <cstddef>
#include <cstdint>

namespace sparsmith::cusparse_lt {

// The structures of the library. They never move: one may hold the address of another.
struct alignas(16) Opaque {
  std::byte contents[512];
};
struct Handle : Opaque {};
struct Matrix : Opaque {};
struct Product : Opaque {};    // which matrices are multiplied
struct Selection : Opaque {};  // of an algorithm
struct Plan : Opaque {};

// Versions with these declarations: major * 1000 + minor * 100 + patch.
inline constexpr int kFirstVersion = 800;
inline constexpr int kEndVersion = 900;

// Values of the library's enumerations.
inline constexpr int kTwoOfFour = 0;         // the sparsity
inline constexpr int kFloat32Sums = 2;       // the type of sums
inline constexpr int kDefaultAlgorithm = 0;  // where a selection begins
enum class Attribute : int {                 // of a selection; each is an int
  kAlgorithm = 0,
  kAlgorithms = 1,  // how many there are
  kSplitK = 3,      // parts of the columns; -1 where the library divides them
  kSplitKMode = 4,  // the number of kernels
};

// X(name, parameters) for each function.
#define SPARSMITH_CUSPARSE_LT_FUNCTIONS(X)                                                                             \
  X(Init, (Handle*))                                                                                                   \
  X(Destroy, (const Handle*))                                                                                          \
  X(GetVersion, (const Handle*, int* version))                                                                         \
  X(DenseDescriptorInit, (const Handle*, Matrix*, std::int64_t rows, std::int64_t cols, std::int64_t ld,               \
                          std::uint32_t alignment, cudaDataType_t, cusparseOrder_t))                                   \
  X(StructuredDescriptorInit, (const Handle*, Matrix*, std::int64_t rows, std::int64_t cols, std::int64_t ld,          \
                               std::uint32_t alignment, cudaDataType_t, cusparseOrder_t, int sparsity))                \
  X(MatDescriptorDestroy, (const Matrix*))                                                                             \
  X(MatmulDescriptorInit, (const Handle*, Product*, cusparseOperation_t of_a, cusparseOperation_t of_b,                \
                           const Matrix* a, const Matrix* b, const Matrix* c, const Matrix* d, int sums))              \
  X(MatmulAlgSelectionInit, (const Handle*, Selection*, const Product*, int algorithm))                                \
  X(MatmulAlgSelectionDestroy, (const Selection*))                                                                     \
  X(MatmulAlgGetAttribute, (const Handle*, const Selection*, Attribute, void* value, std::size_t bytes))               \
  X(MatmulAlgSetAttribute, (const Handle*, Selection*, Attribute, const void* value, std::size_t bytes))               \
  X(MatmulPlanInit, (const Handle*, Plan*, const Product*, const Selection*))                                          \
  X(MatmulPlanDestroy, (const Plan*))                                                                                  \
  X(MatmulGetWorkspace, (const Handle*, const Plan*, std::size_t* bytes))                                              \
  X(Matmul, (const Handle*, const Plan*, const void* alpha, const void* a, const void* b, const void* beta,            \
             const void* c, void* d, void* workspace, cudaStream_t* streams, std::int32_t stream_count))               \
  X(SpMMACompressedSize2, (const Handle*, const Matrix*, std::size_t* bytes, std::size_t* buffer_bytes))               \
  X(SpMMACompress2, (const Handle*, const Matrix*, int is_a, cusparseOperation_t, const void* dense, void* compressed, \
                     void* buffer, cudaStream_t))

}  // namespace sparsmith::cusparse_lt
