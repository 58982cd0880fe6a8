#include "runtime/cublas_lt.h"

#include <fmt/format.h>

#include "runtime/cuda_library.h"

namespace sparsmith {
namespace {

Result<CublasLt> open_library() {
  // The first is the one whose header this was compiled with; the functions used are the same in both.
  const Result<CudaLibrary> library = CudaLibrary::open({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  if (!library.ok())
    return no_device(
        fmt::format("weights that are kept dense need the CUDA toolkit's cuBLASLt: {}", library.status().message()));
  CublasLt table;
#define SPARSMITH_LOAD(member, symbol) SPARSMITH_RETURN_IF_ERROR(library->bind(#symbol, table.member));
  SPARSMITH_CUBLAS_LT_FUNCTIONS(SPARSMITH_LOAD)
#undef SPARSMITH_LOAD
  return table;
}

}  // namespace

Status CublasLt::check(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  std::string message = fmt::format("cuBLASLt: {}: status {}", what, static_cast<int>(status));
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? unsupported(std::move(message)) : device_error(std::move(message));
}

Result<const CublasLt*> cublas_lt() {
  static const Result<CublasLt> table = open_library();
  if (!table.ok()) return table.status();
  return &*table;
}

}  // namespace sparsmith
